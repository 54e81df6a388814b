//! Builder of the contenders written in C, if their compiler and library are installed.
//!
//! Programs are built in a temporary directory that is removed with the [`Workshop`]; nothing is written into the
//! source tree. No `-march` is passed: all contenders, in Rust and in C, are compiled for the target's baseline, so
//! that the benches compare runtimes and not instruction sets.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::child::{Contender, Launch};

/// Schedulers that StarPU runs with; only the better result counts.
const STARPU_SCHEDULERS: [&str; 2] = ["eager", "lws"];

/// Policies by which OpenMP's threads wait for work; only the better result counts.
const WAIT_POLICIES: [&str; 2] = ["active", "passive"];

/// The name of GCC's OpenMP runtime.
pub(crate) const LIBGOMP: &str = "libgomp";
/// The name of Clang's OpenMP runtime.
pub(crate) const LIBOMP: &str = "libomp";

/// Returns whether the C contender named `contender` orders tasks by their data dependences. libomp does not do so in a
/// team of one, where it runs each task immediately, in program order.
pub(crate) fn tracks_dependences(contender: &str, workers: usize) -> bool {
    contender != LIBOMP || workers > 1
}

/// A directory with the programs built for this run.
#[derive(Debug)]
pub(crate) struct Workshop {
    directory: TempDir,
}

impl Workshop {
    pub(crate) fn new() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("thalweg-bench").tempdir()?;
        Ok(Self { directory })
    }

    /// Returns the contenders of the bench `bench` that are written in C: `openmp.c` built with GCC (libgomp) and
    /// with Clang (libomp), and `starpu.c`.
    pub(crate) fn contenders(&self, bench: &str) -> Vec<Contender> {
        let starpu = pkg_config("starpu-1.3").and_then(|flags| {
            let program = self.compile("starpu", "cc", &contenders_of(bench).join("starpu.c"), &flags)?;
            Ok(STARPU_SCHEDULERS.map(|scheduler| self.starpu(&program, scheduler)).into())
        });
        let mut all = self.openmp(bench, &["-fopenmp", "-lm"], |_, program| Ok(launch(program)));
        all.push(Contender { name: "starpu", launches: starpu });
        all
    }

    /// Returns contenders whose `openmp.c` is built as a library. The bench starts itself as a child process, which
    /// finds the library through the environment variable `variable`.
    pub(crate) fn openmp_libraries(&self, bench: &str, variable: &'static str) -> Vec<Contender> {
        self.openmp(bench, &["-fopenmp", "-fPIC", "-shared"], |name, library| {
            let environment = vec![(variable, library.display().to_string())];
            Ok(Launch { environment, ..Launch::this_bench(name)? })
        })
    }

    /// Builds `openmp.c` with these flags, with GCC and with Clang. `launch` then starts each build with each wait
    /// policy.
    fn openmp(
        &self,
        bench: &str,
        flags: &[&str],
        launch: impl Fn(&'static str, PathBuf) -> Result<Launch, String>,
    ) -> Vec<Contender> {
        let source = contenders_of(bench).join("openmp.c");
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let contender = |(name, compiler)| {
            let built = self.compile(name, compiler, &source, &flags).and_then(|built| launch(name, built));
            Contender { name, launches: built.map(|launch| WAIT_POLICIES.map(|policy| bound(&launch, policy)).into()) }
        };
        [(LIBGOMP, "gcc"), (LIBOMP, "clang")].map(contender).into()
    }

    /// Returns a launch of StarPU with `scheduler`. `STARPU_HOME` is the workshop, so everything that StarPU learns
    /// about the machine is stored there.
    fn starpu(&self, program: &Path, scheduler: &str) -> Launch {
        let home = self.directory.path().to_string_lossy().into_owned();
        Launch {
            environment: vec![
                ("STARPU_SCHED", scheduler.to_owned()),
                ("STARPU_HOME", home),
                ("STARPU_SILENT", "1".to_owned()),
                ("STARPU_NCUDA", "0".to_owned()),
                ("STARPU_NOPENCL", "0".to_owned()),
            ],
            ..launch(program.to_owned())
        }
    }

    /// Compiles and links `source` into an executable or library called `name`. The error is a one-line reason.
    fn compile(&self, name: &str, compiler: &str, source: &Path, flags: &[String]) -> Result<PathBuf, String> {
        let program = self.directory.path().join(name);
        run(Command::new(compiler)
            .args(["-std=gnu11", "-O3", "-ffp-contract=off", "-Wall", "-Wextra"])
            .arg(source)
            .args(flags)
            .arg("-o")
            .arg(&program))?;
        Ok(program)
    }
}

/// Returns the folder of the contenders of `bench`.
fn contenders_of(bench: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join(bench).join("contenders")
}

/// Pins each thread of an OpenMP program to its own core, as our runtime does, and sets the wait policy.
fn bound(launch: &Launch, policy: &str) -> Launch {
    let mut launch = launch.clone();
    let environment = [("OMP_PROC_BIND", "close"), ("OMP_PLACES", "cores"), ("OMP_WAIT_POLICY", policy)];
    launch.environment.extend(environment.map(|(key, value)| (key, value.to_owned())));
    launch
}

fn launch(program: PathBuf) -> Launch {
    Launch { program, leading: Vec::new(), environment: Vec::new() }
}

/// Returns the compiler and linker flags of `package`.
fn pkg_config(package: &str) -> Result<Vec<String>, String> {
    let flags = run(Command::new("pkg-config").args(["--cflags", "--libs", package]))?;
    Ok(flags.split_whitespace().map(str::to_owned).collect())
}

/// Runs `command` and returns its output. The error is a one-line reason.
fn run(command: &mut Command) -> Result<String, String> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{tool} did not start: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = errors.lines().find(|line| line.contains("error")).or_else(|| errors.lines().next());
    Err(format!("{tool}: {}", line.unwrap_or("failed without a message")))
}
