//! Generator of the guide's pictures, from recorded task graphs, partitions, work distributions and simulated runs.
//!
//! `cargo run --release -p thalweg-guide --example pictures` writes them to `docs/guide/src/pictures`, or to the folder
//! given as argument.
//!
//! The output is the same on every machine, because nothing is timed. Graphviz's `dot` draws the graphs; if it is not
//! installed, only their DOT files are written.

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
