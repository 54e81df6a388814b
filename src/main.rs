//! The `thalweg` program; all of it is in [`thalweg::cli`].

fn main() -> std::process::ExitCode {
    thalweg::cli::run()
}
