//! Cost of an empty task with one `inout` access: through C and C++, against Rust's typed front door.
//!
//! `cargo bench -p thalweg-c` compiles the programs, runs them alternately, and prints the least time per task of each,
//! with its ratio to Rust's. If valgrind is installed, it also prints the instructions per task, which do not depend on
//! what else the machine does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use thalweg::Runtime;

const TASKS: usize = 200_000;
const REPETITIONS: usize = 9;
/// The goals for C and C++, as ratios to Rust.
const GOALS: [f64; 3] = [1.0, 1.3, 1.4];

/// Runs the tasks and prints the nanoseconds per task.
fn typed(tasks: usize) {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().expect("a unit");
    let data: Vec<_> = (0..64).map(|_| rt.zeros::<f64, _>(8)).collect();
    let begin = Instant::now();
    for i in 0..tasks {
        rt.task("empty", (data[i % 64].inout(),)).cpu(|_, _| ()).submit().expect("a task");
    }
    rt.wait().expect("no failure");
    println!("{}", begin.elapsed().as_secs_f64() * 1e9 / tasks as f64);
}

/// Compiles a program against the library in this folder.
fn compile(compiler: &str, standard: &str, source: &str, library: &Path) -> PathBuf {
    let (root, program) = (Path::new(env!("CARGO_MANIFEST_DIR")), library.join(format!("thalweg-{source}-bench")));
    let status = Command::new(compiler)
        .args([standard, "-O2", "-o"])
        .arg(&program)
        .arg(root.join("benches").join(source))
        .arg(format!("-I{}", root.join("include").display()))
        .arg(format!("-L{}", library.display()))
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .args(["-lthalweg", "-lm", "-pthread"])
        .status();
    assert!(status.expect("a compiler").success(), "{source} cannot be compiled");
    program
}

/// Runs a program and returns its output.
fn output(command: &mut Command) -> String {
    let output = command.output().expect("the program is executable");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Returns the number of instructions of a run with this number of tasks; `None` without valgrind.
fn instructions(program: &Path, tasks: usize) -> Option<f64> {
    Command::new("valgrind").arg("--version").output().ok()?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).arg(tasks.to_string());
    let text = output(&mut command);
    text.lines().find_map(|line| line.split("Collected : ").nth(1))?.trim().parse().ok()
}

fn main() {
    if let Some(tasks) = std::env::args().nth(1).and_then(|tasks| tasks.parse().ok()) {
        return typed(tasks);
    }
    let this = std::env::current_exe().expect("the bench has a path");
    let target = this.ancestors().nth(3).expect("benches are in <target>/release/deps");
    let mut build = Command::new(env!("CARGO"));
    // The profile in which this bench is built, so that both sides are optimized alike.
    build.args(["build", "--quiet", "--profile", "bench", "--package", "thalweg-c", "--target-dir"]).arg(target);
    assert!(build.status().expect("Cargo runs").success(), "the library cannot be built");
    let library = target.join("release");
    let c = compile("cc", "-std=c99", "empty.c", &library);
    let cpp = compile("c++", "-std=c++17", "empty.cpp", &library);
    let contenders = [("Rust", this.clone()), ("C", c), ("C++", cpp)];
    let mut least = [f64::INFINITY; 3];
    for _ in 0..REPETITIONS {
        for (least, (_, program)) in least.iter_mut().zip(&contenders) {
            let time = output(Command::new(program).arg(TASKS.to_string())).trim().parse().expect("a number");
            *least = least.min(time);
        }
    }
    println!("| language | ns per task | ratio | goal | instructions per task | ratio |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let mut of_rust = None;
    for (i, (language, program)) in contenders.iter().enumerate() {
        let (few, many) = (1000, 11000);
        let counted = instructions(program, few).zip(instructions(program, many));
        let counted = counted.map(|(before, after)| (after - before) / (many - few) as f64);
        of_rust = of_rust.or(counted);
        let shown = counted.zip(of_rust).map_or("| |".to_owned(), |(n, rust)| format!("{n:.0} | {:.2} |", n / rust));
        println!("| {language} | {:.0} | {:.2} | {:.1} | {shown}", least[i], least[i] / least[0], GOALS[i]);
    }
}
