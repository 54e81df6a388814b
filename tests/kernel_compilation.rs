//! Compiles every kernel for NVIDIA's and AMD's architectures. This needs their compilers, but no device.
//!
//! A missing compiler is reported, and is a failure if `THALWEG_REQUIRE` names it (`nvrtc,hiprtc`).

#[path = "common/cubin.rs"]
mod cubin;
#[path = "loops/generated/draw.rs"]
#[allow(dead_code)]
mod draw;
#[path = "loops/generated/nest.rs"]
#[allow(dead_code)]
mod nest;

use cubin::Usage;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use thalweg::devices::compile_for;
use thalweg::kernel::{Module, Program};
use thalweg::prelude::DeviceError;

/// A compiler and the architectures to compile for.
struct Compiler {
    name: &'static str,
    /// Architectures that every compiler version in use knows. If the compiler is required, these are required as well.
    known: &'static [&'static str],
    /// Architectures that some compiler versions in use do not know yet or no longer support.
    perhaps: &'static [&'static str],
}

const COMPILERS: [Compiler; 2] = [
    Compiler { name: "nvrtc", known: &["sm_75", "sm_80", "sm_90"], perhaps: &["sm_70", "sm_100"] },
    Compiler { name: "hiprtc", known: &["gfx906", "gfx90a"], perhaps: &["gfx942"] },
];

/// Macros whose values the host defines.
const DEFINES: [(&str, i64); 2] = [("BLOCK_X", 32), ("LANES", 8)];

/// Returns the names and texts of all files with this extension in the project's and the benchmarks' `kernels/`
/// folders.
fn texts(ending: &str) -> Vec<(&'static str, &'static str)> {
    let folders = ["kernels", "crates/npb/kernels", "crates/npb-cg/kernels"]
        .map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let files = folders.into_iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|e| e == ending)).collect();
    files.sort();
    let text = |file: &PathBuf| -> (&'static str, &'static str) {
        (file.file_name().unwrap().to_str().unwrap().to_owned().leak(), fs::read_to_string(file).unwrap().leak())
    };
    files.iter().map(text).collect()
}

/// Returns a program that is compiled and never launched.
#[allow(unsafe_code)]
const fn program(name: &'static str, text: &'static str) -> Program {
    // SAFETY: the program is only compiled, so none of its kernels runs.
    unsafe { Program::new(name, text) }
}

/// Returns the code of the program, or `None` if there is no compiler for the architecture.
fn compile(program: &Program, architecture: &str) -> Option<Vec<u8>> {
    match compile_for(program, architecture) {
        Ok(code) => Some(code),
        Err(DeviceError::NoCompiler { why, .. }) => {
            println!("skipped: {architecture}: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Calls `check` for every architecture that an empty program compiles for.
fn for_each_architecture(check: impl Fn(&str)) {
    let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
    for Compiler { name, known, perhaps } in COMPILERS {
        // A build without the feature `hip` never has HIP, regardless of the machine.
        let is_built = name != "hiprtc" || cfg!(feature = "hip");
        let is_required = is_built && required.split(',').any(|required| required.trim() == name);
        for architecture in known.iter().chain(perhaps) {
            let is_there = compile(&program("nothing.cl", ""), architecture).is_some();
            let is_asked_for = is_required && known.contains(architecture);
            assert!(is_there || !is_asked_for, "{name} is required, and does not compile for {architecture}");
            if is_there {
                check(architecture);
            }
        }
    }
}

/// Like [`for_each_architecture`], but with only one architecture per compiler. For slow checks that would learn
/// nothing from further architectures.
fn for_each_compiler(check: impl Fn(&str)) {
    let last = COMPILERS.map(|compiler| *compiler.known.last().unwrap());
    for_each_architecture(|architecture| {
        if last.contains(&architecture) {
            check(architecture);
        }
    });
}

/// Returns a program with all headers, and with the macros that the host defines.
fn complete(name: &'static str, text: &'static str, headers: &[(&'static str, &'static str)]) -> Program {
    let program = headers.iter().fold(program(name, text), |program, (name, text)| program.header(name, text));
    DEFINES.iter().fold(program, |program, (name, value)| program.define(name, *value))
}

fn headers() -> Vec<(&'static str, &'static str)> {
    texts("h").into_iter().filter(|(name, _)| *name != "dialect.h").collect()
}

/// The resources of each kernel on one architecture are recorded in a table. An increase by an allocation step of
/// registers, or any increase of the stack (which holds spilled registers), is a failure. `THALWEG_BLESS=1` rewrites
/// the table.
#[test]
fn registers_and_stack_do_not_exceed_the_recorded_table() {
    const ARCHITECTURE: &str = "sm_90";
    /// Granularity, in registers, at which registers are allocated to threads.
    const STEP: u32 = 8;
    const TITLE: &str = "text,kernel,registers,stack_bytes";
    let (headers, mut lines, mut release, mut heads) = (headers(), Vec::new(), String::new(), 0);
    for (name, text) in texts("cl") {
        heads += text.lines().filter(|line| line.starts_with("KERNEL(")).count();
        let Some(code) = compile(&complete(name, text, &headers), ARCHITECTURE) else { return };
        release = cubin::release(&code).expect("the compiler states its release");
        // The code also has functions that the compiler adds.
        let kernels = cubin::usage(&code).into_iter().filter(|(kernel, _)| !kernel.starts_with('$'));
        for (kernel, Usage { registers, stack_bytes }) in kernels {
            assert!(registers > 0, "{name}: {kernel}");
            lines.push(format!("{name},{kernel},{registers},{stack_bytes}"));
        }
    }
    assert_eq!(lines.len(), heads);
    let head = format!("# {ARCHITECTURE}, by NVRTC {release}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/registers.csv");
    if std::env::var_os("THALWEG_BLESS").is_some() {
        fs::write(&path, format!("{head}\n{TITLE}\n{}\n", lines.join("\n"))).unwrap();
        return;
    }
    let table = fs::read_to_string(&path).unwrap();
    if table.lines().next() != Some(&head) {
        let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == "nvrtc"), "{path:?} is of another compiler than {head}");
        return println!("skipped: {path:?} is of another compiler than {head}");
    }
    let parse = |line: &str| {
        let mut parts = line.rsplitn(3, ',');
        let (stack, registers) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?);
        Some((parts.next()?.to_owned(), (registers, stack)))
    };
    let written: BTreeMap<_, _> = table.lines().filter_map(parse).collect();
    let found: BTreeMap<_, _> = lines.iter().filter_map(|line| parse(line)).collect();
    assert!(found.keys().eq(written.keys()), "the set of kernels has changed; try THALWEG_BLESS=1");
    for (kernel, (registers, stack)) in found {
        let (before, stack_before) = written[&kernel];
        let is_worse = registers > before.next_multiple_of(STEP) || stack > stack_before;
        assert!(
            !is_worse,
            "{kernel} takes {registers} registers and {stack} bytes of stack, and took {before} and {stack_before}"
        );
    }
}

#[test]
fn every_kernel_text_compiles_for_every_architecture() {
    let headers = headers();
    let texts = texts("cl");
    for_each_architecture(|architecture| {
        for (name, text) in &texts {
            let program = complete(name, text, &headers);
            let code = compile(&program, architecture).expect("the compiler is available");
            println!("{name} for {architecture}: {} bytes", code.len());
            for line in text.lines().filter(|line| line.starts_with("KERNEL(")) {
                let kernel = line.split_once(')').unwrap().1.split('(').next().unwrap().trim();
                let has = code.windows(kernel.len()).any(|part| part == kernel.as_bytes());
                assert!(has || is_compressed(&code), "{name} for {architecture}: {kernel} is not there");
            }
        }
    });
}

/// Calls `check` with the name and the text of every kernel that the attribute `target` generates in the examples,
/// tests and benchmarks of loops, and with some random kernels. Functions generated by macros are left out, because
/// they are not in any file.
fn for_each_loop(mut check: impl FnMut(&str, String)) {
    let folders = ["examples/loops", "tests/loops", "benches/loops"]
        .map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let files = folders.into_iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        let source = fs::read_to_string(&file).unwrap();
        for function in thalweg_loops::kernel_functions(&source).unwrap() {
            let text = thalweg_loops::kernel_text(&source, &function).unwrap();
            check(&format!("{}:{function}", file.display()), text);
        }
    }
    // A simple generator with a fixed seed is good enough here.
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as u16
    };
    for number in 0..12 {
        let choices: Vec<u16> = (0..120).map(|_| next()).collect();
        let source = nest::Nest::draw(&mut draw::Choices::new(&choices)).source();
        let text = thalweg_loops::kernel_text(&source, "nest").unwrap_or_else(|error| panic!("{error}\n{source}"));
        check(&format!("random nest {number}"), text);
    }
}

#[test]
fn every_generated_loop_kernel_compiles() {
    let mut loops = Vec::new();
    for_each_loop(|name, text| loops.push((name.to_owned(), &*text.leak())));
    assert!(loops.len() > 30, "{} loops", loops.len());
    let shapes = [([32, 4, 1], 0, 1), ([64, 1, 1], 1, 0)];
    let header = thalweg::loops::support::LOOPS;
    // Architectures differ in the generated code, not in what compiles.
    for_each_compiler(|architecture| {
        for (name, text) in &loops {
            for (team, once, checked) in shapes {
                let mut program = program("loop.cl", text).header("loops.h", header).define("THALWEG_EXACT", 1);
                for (axis, threads) in ["TEAM_X", "TEAM_Y", "TEAM_Z"].into_iter().zip(team) {
                    program = program.define(axis, threads);
                }
                for loops in ["ONCE_TEAMS", "ONCE_X", "ONCE_Y", "ONCE_Z"] {
                    program = program.define(loops, once);
                }
                let code = match compile_for(&program.define("CHECKED", checked), architecture) {
                    Ok(code) => code,
                    Err(error) => panic!("{name} for {architecture}: {error}\n{text}"),
                };
                let kernels = text.lines().filter(|line| line.starts_with("KERNEL("));
                for kernel in kernels.map(|line| line.split_once(") ").unwrap().1.split('(').next().unwrap()) {
                    let has = code.windows(kernel.len()).any(|part| part == kernel.as_bytes());
                    assert!(has || is_compressed(&code), "{name} for {architecture}: {kernel} is not there");
                }
            }
        }
    });
    println!("{} loops", loops.len());
}

/// Returns whether the code is a bundle of compressed objects, in which names are not visible.
fn is_compressed(code: &[u8]) -> bool {
    code.starts_with(b"CCOB")
}

/// Compiles all functions of the dialect, whether or not a kernel of this project calls them.
#[test]
fn every_function_of_the_dialect_compiles() {
    const TEXT: &str = "
        KERNEL(64, 2, 1) all(IN(double, x, n), INOUT(double, y, [2 : m + 1]), OUT(unsigned, z, n), int n, INT64 m, UINT64 k,
                          float f)
        {
            REGION(x); REGION(y); REGION(z);
            LOCAL(double, shared, 128);
            int i = GLOBAL_ID(0) + NUM_GROUPS(1) * GROUP_ID(1), thread = LOCAL_ID(0) + 64 * LOCAL_ID(1);
            shared[thread] = i < n ? x[i] * f : 0.0;
            BARRIER();
            UNROLL for (int j = 0; j < 2; j++) shared[thread] += j;
            if (i < n) {
                ATOMIC_ADD(&y[0], shared[127 - thread]);
                ATOMIC_MAX(&y[m + 1], DOUBLE_OF(BITS_OF(shared[thread])));
                z[i] = (unsigned)(m + (INT64)k);
            }
        }";
    for_each_architecture(|architecture| {
        assert!(compile(&program("all.cl", TEXT), architecture).is_some_and(|code| !code.is_empty()));
    });
}

#[test]
fn compilation_error_names_the_place() {
    const HEADER: &str = "// one\n// two\nDEVICE double twice(double x) { return 2 * x; }";
    const TEXT: &str = "KERNEL(64, 1, 1) broken(OUT(double, y, 1))\n{\n    REGION(y);\n    y[0] = twice(nonsense);\n}";
    let program = program("broken.cl", TEXT).header("twice.h", HEADER).define("N", 3);
    for_each_architecture(|architecture| {
        let error = compile_for(&program, architecture).unwrap_err();
        let DeviceError::Compilation { program, device, log } = &error else { panic!("{error}") };
        assert_eq!((program.as_str(), device.as_str()), ("broken.cl", architecture));
        println!("{error}");
        let place = ["broken.cl:4", "broken.cl(4)"]; // clang, NVIDIA
        assert!(place.iter().any(|place| log.contains(place)) && log.contains("nonsense"), "{log}");
    });
}

/// Runtimes on several threads compile at the same time, including texts with errors.
#[test]
fn concurrent_compilations_do_not_disturb_each_other() {
    const THREADS: usize = 4;
    const TEXT: &str = "KERNEL(1, 1, 1) zero(OUT(double, y, 1)) { REGION(y); y[0] = VALUE; }";
    for_each_compiler(|architecture| {
        let meet = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let meet = &meet;
                scope.spawn(move || {
                    meet.wait();
                    for round in 0..16 {
                        let is_wrong = (thread + round) % 3 == 0;
                        let text =
                            if is_wrong { "KERNEL(1, 1, 1) none(OUT(double, y, 1)) { nonsense; }" } else { TEXT };
                        let made = compile_for(&program("zero.cl", text).define("VALUE", round as i64), architecture);
                        match made {
                            Ok(code) => assert!(!is_wrong && !code.is_empty()),
                            Err(error) => assert!(is_wrong, "{error}"),
                        }
                    }
                });
            }
        });
    });
}

/// NVRTC cannot generate code for an unknown architecture, so the driver has to compile the PTX.
#[test]
fn unknown_future_architecture_gets_ptx() {
    let program = program("zero.cl", "KERNEL(1, 1, 1) zero(OUT(double, y, 1)) { REGION(y); y[0] = 0.0; }");
    let Some(code) = compile(&program, "sm_999") else { return };
    let text = std::ffi::CStr::from_bytes_with_nul(&code).unwrap().to_str().unwrap();
    assert!(text.contains(".visible .entry zero(") && text.contains(".target sm_"), "{text}");
}

/// Returns a folder of the loader's path that contains NVRTC.
fn folder_of_nvrtc() -> Option<PathBuf> {
    let paths = std::env::var_os("LD_LIBRARY_PATH")?;
    let has_nvrtc = |folder: &PathBuf| {
        let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.any(|file| file.file_name().to_string_lossy().starts_with("libnvrtc.so"))
    };
    std::env::split_paths(&paths).find(has_nvrtc)
}

/// Runs a test in another process, without the loader's path, and with one variable that names a folder of `root`.
fn run_without_loader_path(test: &str, root: &Path, variable: &str, folder: &str) -> (bool, String) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    for name in ["LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "VIRTUAL_ENV", "PYTHONPATH"] {
        command.env_remove(name);
    }
    let output = command.env("HOME", root).env(variable, root.join(folder)).output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.success(), text)
}

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn compiles_here() {
    compile_for(&program("nothing.cl", ""), "sm_90").unwrap_or_else(|error| panic!("{error}"));
}

/// NVRTC in a Python package does not know its own folder, so it cannot find its builtins there.
#[test]
fn nvrtc_is_found_outside_the_loaders_path() {
    let Some(nvrtc) = folder_of_nvrtc() else {
        let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == "nvrtc"), "NVRTC is required on LD_LIBRARY_PATH");
        return println!("skipped: there is no NVRTC on LD_LIBRARY_PATH");
    };
    for (variable, folder, library) in [
        ("VIRTUAL_ENV", "venv", "lib/python3.11/site-packages/nvidia/cu13/lib"),
        ("CONDA_PREFIX", "conda", "lib"),
        ("CUDA_HOME", "toolkit", "lib64"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join(folder).join(library);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&nvrtc, link).unwrap();
        let (compiles, said) = run_without_loader_path("compiles_here", root.path(), variable, folder);
        assert!(compiles, "{variable}: {said}");
    }
    let root = tempfile::tempdir().unwrap();
    let (compiles, said) = run_without_loader_path("compiles_here", root.path(), "CUDA_HOME", "nowhere");
    let is_installed = compiles; // in a place that this test cannot hide, such as /usr/local/cuda
    let names_places =
        ["CUDA_HOME (", "CONDA_PREFIX (unset)", "/usr/local/cuda*"].iter().all(|place| said.contains(place));
    assert!(is_installed || names_places, "{said}");
}

const HALVES: &str = r#"
    #include "cuda_fp16.h"
    #include "mine.h"
    extern "C" __global__ void __launch_bounds__(32) answer(int *y) { y[threadIdx.x] = FP16 + MINE; }"#;

#[test]
#[ignore = "run by another test, in an environment of its own"]
fn includes_headers_here() {
    let own = PathBuf::from(std::env::var_os("CUDA_HOME").unwrap()).join("own");
    let option: &'static str = format!("--include-path={}", own.display()).leak();
    let options: &'static [&'static str] = vec![option, "--std=c++20"].leak();
    let module = Module::new("halves.cu").cuda(HALVES).cuda_options(options);
    let code = compile_for(&module, "sm_999").unwrap_or_else(|error| panic!("{error}"));
    let text = std::ffi::CStr::from_bytes_with_nul(&code).unwrap().to_str().unwrap();
    assert!(text.contains(".entry answer(") && text.contains("42"), "{text}");
    let error = compile_for(&Module::new("halves.cu").cuda(HALVES), "sm_999").unwrap_err().to_string();
    assert!(error.contains("mine.h") && !error.contains("cuda_fp16"), "only its folder is not an option: {error}");
    let error = compile_for(&Module::new("none").hip(HALVES), "sm_90").unwrap_err();
    assert!(matches!(error, DeviceError::NoCompiler { .. }), "{error}");
}

/// The headers of the installation are found without an option, and a user's own by an option.
#[test]
fn module_texts_include_headers() {
    let Some(nvrtc) = folder_of_nvrtc() else { return };
    let root = tempfile::tempdir().unwrap();
    let of = |path: &str| root.path().join("toolkit").join(path);
    for (header, text) in [("include/cuda_fp16.h", "#define FP16 40"), ("own/mine.h", "#define MINE 2")] {
        fs::create_dir_all(of(header).parent().unwrap()).unwrap();
        fs::write(of(header), text).unwrap();
    }
    std::os::unix::fs::symlink(&nvrtc, of("lib64")).unwrap();
    let (passed, said) = run_without_loader_path("includes_headers_here", root.path(), "CUDA_HOME", "toolkit");
    assert!(passed, "{said}");
}

/// Profilers and compute-sanitizer name the text and the line of an instruction.
#[test]
fn code_has_source_names_and_lines() {
    const TEXT: &str = "KERNEL(1, 1, 1) zero(OUT(double, y, 1))\n{\n    REGION(y);\n    y[0] = 0.0;\n}";
    let Some(code) = compile(&program("zero.cl", TEXT), "sm_999") else { return };
    let text = std::ffi::CStr::from_bytes_with_nul(&code).unwrap().to_str().unwrap();
    let file = text.lines().find(|line| line.contains(".file") && line.contains("zero.cl")).expect("its name is there");
    let number = file.split_whitespace().nth(1).unwrap();
    assert!(text.contains(&format!(".loc\t{number} 4 ")) || text.contains(&format!(".loc {number} 4 ")), "{text}");
}

#[test]
fn nonsensical_architecture_has_no_compiler() {
    for architecture in ["sm_1", "sm_x", "gfx1", "avx512", ""] {
        let error = compile_for(&program("nothing.cl", ""), architecture).unwrap_err();
        assert!(matches!(error, DeviceError::NoCompiler { .. }), "{error}");
        println!("{error}");
    }
}
