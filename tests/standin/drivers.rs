//! Builds the stand-in drivers, runs programs on them, and reads their reports.

use super::cargo;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::prelude::*;

/// Settings of a process: the interface, and the environment variables for the stand-in.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The kind of unit.
    pub units: &'static str,
    /// The folder with links to the stand-in's library.
    folder: &'static str,
    /// Names under which the loader looks for the interface's libraries.
    libraries: &'static [&'static str],
    variables: BTreeMap<&'static str, String>,
}

const fn settings(units: &'static str, folder: &'static str, libraries: &'static [&'static str]) -> Settings {
    Settings { units, folder, libraries, variables: BTreeMap::new() }
}

pub static CUDA: Settings =
    settings("CUDA", "CUDA", &["libcuda.so.1", "libcuda.so", "libnvrtc.so.13", "libnvrtc.so", "libnvToolsExt.so.1"]);
/// The first library name is that of a release that does not exist yet.
pub static HIP: Settings = settings("HIP", "HIP", &["libamdhip64.so.8", "libamdhip64.so", "libroctx64.so"]);
/// OpenCL on cores that looks like a GPU. This needs a CPU implementation and the headers of OpenCL's layers.
pub static OPENCL: Settings = settings("OPENCL", "OpenCL", &[]);

impl Settings {
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.variables.insert(name, value.to_string());
        self
    }
}

/// Everything that was built: the folder and the programs by name.
pub struct Built {
    folder: PathBuf,
    programs: BTreeMap<String, PathBuf>,
    examples: OnceLock<BTreeMap<String, PathBuf>>,
}

impl Built {
    pub fn of(&self, program: &str) -> PathBuf {
        self.programs.get(program).unwrap_or_else(|| panic!("{program} was not built")).clone()
    }

    /// Returns the path of the stand-in library for all interfaces.
    pub fn library(&self) -> PathBuf {
        self.folder.join("libstandin.so")
    }

    /// Returns the path of an example. The first call builds all examples.
    pub fn example(&self, name: &str) -> PathBuf {
        let examples = self.examples.get_or_init(build_examples);
        examples.get(name).unwrap_or_else(|| panic!("{name} was not built")).clone()
    }
}

/// Builds everything once per process. Returns `None` if there is no compiler for the stand-in.
pub fn built() -> Option<&'static Built> {
    static BUILT: OnceLock<Option<Built>> = OnceLock::new();
    BUILT.get_or_init(build).as_ref()
}

fn build() -> Option<Built> {
    if Command::new("c++").arg("--version").output().is_err() {
        let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == "standin"), "there is no C++ compiler `c++`");
        println!("skipped: there is no C++ compiler `c++`");
        return None;
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("standin");
    std::fs::create_dir_all(&folder).unwrap();
    // The library is first written to a file named after this process's ID, because another process may be building it
    // at the same time.
    let (library, mine) = (folder.join("libstandin.so"), folder.join(format!("{}.so", std::process::id())));
    let files = ["core.cpp", "kernels.cpp", "cuda.cpp", "hip.cpp", "ranges.cpp"].map(|name| sources.join(name));
    let changed = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    let headers = ["core.hpp", "host.h"].map(|name| sources.join(name));
    if changed(&library) < files.iter().chain(&headers).map(|file| changed(file)).max().flatten() {
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++17", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread"]);
        compiler
            .arg(format!("-DSTANDIN_FOLDER=\"{}\"", sources.display()))
            .args(&files)
            .arg("-o")
            .arg(&mine)
            .arg("-ldl");
        let output = compiler.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(&mine, &library).unwrap();
        let _ = std::fs::remove_dir_all(folder.join("cache")); // it holds code compiled by the previous stand-in
    }
    for settings in [&CUDA, &HIP] {
        for name in settings.libraries {
            let link = folder.join(settings.folder).join(name);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            let made = std::os::unix::fs::symlink(&library, &link);
            assert!(made.is_ok() || link.exists(), "{made:?}");
        }
    }
    Some(Built { programs: build_programs(), examples: OnceLock::new(), folder })
}

/// Returns the layer that makes OpenCL on cores look like a GPU, or `None` if the headers or OpenCL are missing.
pub fn layer() -> Option<PathBuf> {
    static LAYER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let folder = &built()?.folder;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin/opencl.cpp");
        let (library, mine) = (folder.join("liblayer.so"), folder.join(format!("layer-{}.so", std::process::id())));
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++17", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]);
        compiler.arg("-DCL_TARGET_OPENCL_VERSION=300").arg(source).arg("-o").arg(&mine);
        let output = compiler.output().unwrap();
        let (built, said) = (output.status.success(), String::from_utf8_lossy(&output.stderr));
        let opencl = Runtime::builder().compute_units("1:OPENCL:1").build();
        if built && opencl.is_ok() {
            std::fs::rename(&mine, &library).unwrap();
            std::fs::create_dir_all(folder.join(OPENCL.folder)).unwrap();
            return Some(library);
        }
        let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == "standin"), "no layer of OpenCL: {said} {:?}", opencl.err());
        assert!(built || said.contains("CL/cl_layer.h"), "{said}");
        println!("skipped: there are no headers of OpenCL's layers (CL/cl_layer.h), or there is no OpenCL");
        None
    };
    LAYER.get_or_init(build).clone()
}

/// Builds the other test programs in the same profile as this one: in an unoptimized build for this package alone, like
/// the command in the README, and in an optimized build as part of the workspace, like the examples.
fn build_programs() -> BTreeMap<String, PathBuf> {
    let mut arguments = vec!["build", "--test", "conformance", "--test", "accelerators"];
    if cfg!(debug_assertions) {
        arguments.extend(["--package", "thalweg", "--all-features"]);
    }
    cargo::programs(&arguments)
}

fn build_examples() -> BTreeMap<String, PathBuf> {
    let names = ["jacobi", "cg", "npb_mz", "compact", "macc_cg", "dg", "numpy"];
    cargo::programs(
        &["build"].into_iter().chain(names.into_iter().flat_map(|name| ["--example", name])).collect::<Vec<_>>(),
    )
}

/// The calls of a process, and the objects it leaked.
#[derive(Debug)]
pub struct Report(BTreeMap<String, i64>);

impl Report {
    fn read(text: &str) -> Self {
        let line = |line: &str| {
            let (what, number) = line.rsplit_once(' ').unwrap();
            number.parse().map_or_else(|_| (line.to_owned(), 1), |number| (what.to_owned(), number))
        };
        Self(text.lines().map(line).collect())
    }

    /// Returns how often the function `what` was called, or the amount reported under this name.
    pub fn of(&self, what: &str) -> i64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Returns the sum over all entries with this prefix.
    pub fn sum(&self, prefix: &str) -> i64 {
        self.starting(prefix).map(|(_, number)| number).sum()
    }

    pub fn starting<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, i64)> {
        self.0.iter().filter(move |(what, _)| what.starts_with(prefix)).map(|(what, number)| (what.as_str(), *number))
    }

    pub fn launches(&self) -> i64 {
        self.sum("launches on stream")
    }

    /// Returns the number of calls into the driver or the runtime library.
    pub fn calls(&self) -> i64 {
        let is_call = |what: &str| what.starts_with("cu") || (what.starts_with("hip") && !what.starts_with("hiprtc"));
        self.0.iter().filter(|(what, _)| is_call(what)).map(|(_, number)| number).sum()
    }

    /// Checks that nothing was leaked and no rule was broken.
    pub fn is_clean(&self) {
        let left: Vec<_> = self.starting("live ").filter(|(_, number)| *number != 0).collect();
        let broken: Vec<_> = self.starting("broken rule").collect();
        assert!(left.is_empty() && broken.is_empty(), "left: {left:?}, broken: {broken:?}");
    }

    pub fn has_launched(&self) {
        assert!(self.launches() > 0, "{self:?}");
    }
}

/// Returns whether the programs run under the access sanitizer. It copies the regions of each task through the host by
/// design, so numbers of copies say nothing about the program then.
pub fn sanitizes() -> bool {
    std::env::var("THALWEG_SANITIZE").is_ok_and(|value| value == "1")
}

/// Runs a program on a stand-in and asserts that it succeeds. Returns the program's output and the report.
pub fn run(settings: &Settings, program: &Path, arguments: &[&str]) -> (String, Report) {
    static REPORTS: AtomicUsize = AtomicUsize::new(0);
    let built = built().expect("the caller has checked that it can be built");
    let number = REPORTS.fetch_add(1, Ordering::Relaxed);
    let report = built.folder.join(format!("report-{}-{number}", std::process::id()));
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", built.folder.join(settings.folder));
    command.env("STANDIN_REPORT", &report).env("THALWEG_CACHE_DIR", built.folder.join("cache"));
    command
        .env_remove("THALWEG_REQUIRE")
        .env("OMP_PROC_BIND", "false") // programs run concurrently on the same cores
        .env("RUST_BACKTRACE", "0")
        .env("THALWEG_TEST_UNITS", settings.units)
        .envs(&settings.variables);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{} {arguments:?}: {:?}\n{text}", program.display(), output.status);
    let read = std::fs::read_to_string(&report).unwrap_or_default();
    let _ = std::fs::remove_file(&report);
    (text, Report::read(&read))
}

/// Runs a test of this binary, one of [`programs`](super::programs), on a stand-in.
pub fn run_own(settings: &Settings, name: &str) -> Option<Report> {
    built()?;
    let name = if name.contains("::") { name.to_owned() } else { format!("programs::{name}") };
    let settings = settings.clone().with("STANDIN_UNITS", settings.units);
    let this = std::env::current_exe().unwrap();
    let (output, report) = run(&settings, &this, &["--exact", &name, "--ignored", "--nocapture"]);
    assert!(output.contains("1 passed"), "{output}");
    Some(report)
}
