//! Draws the guide's pictures, from the runtime's own record of tasks, its partitions and work distributions, and from simulated
//! runs: `cargo run --release -p thalweg-guide --example pictures` writes them to `docs/guide/src/pictures`, or to the
//! folder that is given.
//!
//! The same pictures come out on every machine: nothing is timed. Graphs are drawn by Graphviz's `dot`; where it is not
//! installed, their DOT files are written alone.

mod graphs;
mod lines;
mod maps;
mod mesh;
mod sharing;
mod speed;
mod svg;

use std::error::Error;
use std::path::PathBuf;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let default = || concat!(env!("CARGO_MANIFEST_DIR"), "/src/pictures").into();
    let folder: PathBuf = std::env::args_os().nth(1).map_or_else(default, PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    graphs::draw(&folder)?;
    std::fs::write(folder.join("lines.svg"), lines::draw()?)?;
    std::fs::write(folder.join("maps.svg"), maps::draw())?;
    std::fs::write(folder.join("sharing.svg"), sharing::draw()?)?;
    std::fs::write(folder.join("speed.svg"), speed::draw()?)?;
    println!("{}", folder.display());
    Ok(())
}
