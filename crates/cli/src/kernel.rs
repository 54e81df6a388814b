//! `thalweg kernel`: prints the kernels generated from an annotated function.

use clap::Args;
use std::error::Error;
use std::path::Path;

/// Options of `thalweg kernel`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A source file and a function in it with the attribute `target`, such as src/heat.rs:relax
    #[arg(value_name = "FILE:FUNCTION")]
    place: String,
}

/// Prints the source of the kernels, which devices compile after the dialect header.
pub(crate) fn run(Options { place }: &Options) -> Result<(), Box<dyn Error>> {
    let (file, function) = place.rsplit_once(':').ok_or_else(|| {
        format!("cannot find the function: `{place}` has no `:`; write FILE:FUNCTION, such as src/heat.rs:relax")
    })?;
    let source = std::fs::read_to_string(Path::new(file)).map_err(|error| format!("cannot read {file}: {error}"))?;
    let text = thalweg_loops::kernel_text(&source, function).map_err(|error| format!("{file}: {error}"))?;
    print!("{text}");
    Ok(())
}
