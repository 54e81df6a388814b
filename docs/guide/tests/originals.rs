//! The C programs of the porting chapters: they compile and print the documented output.
//!
//! The chapters' Rust blocks assert the same output. If a compiler or a library is not installed, the test is skipped
//! and names it. Compilers for OmpSs-2 are rare: any other compiler ignores its pragmas, and the program runs
//! single-threaded with the same output.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Returns a chapter's program and its expected output: the first C block with a `main`, and the next text block.
fn program(chapter: &str) -> (String, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(chapter);
    let text = fs::read_to_string(path).expect("the chapter can be read");
    let mut blocks = text
        .split("\n```")
        .skip(1)
        .step_by(2)
        .skip_while(|block| !(block.starts_with("c\n") && block.contains("int main(")));
    let program = blocks.next().expect("a program in C");
    let output = blocks.find(|block| block.starts_with("text\n")).expect("what it prints");
    (program["c\n".len()..].to_owned(), output["text\n".len()..].trim().to_owned())
}

/// Runs a command and returns its output, or the reason why it cannot be run.
fn run(command: &mut Command) -> Result<Output, String> {
    command.stdin(Stdio::null()).output().map_err(|error| format!("{:?}: {error}", command.get_program()))
}

/// Compiles a chapter's program and compares its output. pkg-config provides the flags for `package`.
fn check(chapter: &str, flags: &[&str], package: Option<&str>) {
    let (source, expected) = program(chapter);
    let mut libraries = Vec::new();
    if let Some(package) = package {
        match run(Command::new("pkg-config").args(["--cflags", "--libs", package])) {
            Ok(output) if output.status.success() => {
                libraries.extend(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned));
            }
            Ok(_) => return println!("skipped: {package} is not installed"),
            Err(error) => return println!("skipped: {error}"),
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(chapter);
    fs::create_dir_all(&folder).expect("a folder for what is compiled");
    let (text, binary) = (folder.join("program.c"), folder.join("program"));
    fs::write(&text, source).expect("the program can be written");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let compiled =
        run(Command::new(&compiler).args(flags).arg(&text).arg("-o").arg(&binary).args(&libraries).arg("-lm"));
    let compiled = match compiled {
        Ok(compiled) => compiled,
        Err(error) => return println!("skipped: {error}"),
    };
    let messages = String::from_utf8_lossy(&compiled.stderr);
    if messages.contains("cannot find -l")
        || messages.contains("library not found")
        || messages.contains("unsupported option '-fopenmp'")
    {
        return println!("skipped: {messages}");
    }
    assert!(compiled.status.success(), "{chapter}: {messages}");
    let mut command = Command::new(&binary);
    // Keep StarPU's performance models in this folder; two workers are enough.
    command.envs([("STARPU_HOME", folder.as_os_str()), ("STARPU_SILENT", "1".as_ref()), ("STARPU_NCPU", "2".as_ref())]);
    let output = run(&mut command).expect("what was compiled can be run");
    assert!(output.status.success(), "{chapter}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{chapter}");
}

#[test]
fn openmp_program_prints_the_documented_output() {
    check("porting_openmp.md", &["-fopenmp"], None);
}

#[test]
fn ompss_program_prints_the_documented_output() {
    check("porting_ompss.md", &[], None);
}

#[test]
fn starpu_program_prints_the_documented_output() {
    check("porting_starpu.md", &[], Some("starpu-1.3"));
}
