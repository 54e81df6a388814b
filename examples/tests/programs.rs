//! Tests of the example programs, which are run as a user would run them. The tests check output and exit status on
//! every kind of machine.
//!
//! `cargo test` builds the examples first; `cargo test --test programs` runs those that `cargo build --examples`
//! built.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const MACHINES: [&str; 3] = ["2:CPU:1", "1:CPU:2", "1:CPU:1,2:EMU:1"];

/// Time limit, which is longer than any run here takes, even unoptimized on a busy machine. A program that takes longer
/// counts as hanging.
const LIMIT: Duration = Duration::from_secs(120);

/// Starts an example with flags separated by spaces.
fn start(example: &str, flags: &str) -> Child {
    let test = std::env::current_exe().expect("tests have a path");
    let profile = test.ancestors().nth(2).expect("tests are in <profile>/deps");
    let program: PathBuf = [profile, "examples".as_ref(), example.as_ref()].iter().collect();
    let program = program.with_extension(std::env::consts::EXE_EXTENSION);
    Command::new(&program)
        .args(flags.split_whitespace())
        // Tests run in parallel on the same cores. With bound threads, the programs would warn of that on stderr.
        .env("OMP_PROC_BIND", "false")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program:?}: {error}; run `cargo build --examples` first"))
}

/// Waits for a program and asserts that it ends within the limit.
fn ends(example: &str, child: &mut Child) {
    let start = Instant::now();
    while child.try_wait().expect("a child has a status").is_none() {
        if start.elapsed() > LIMIT {
            child.kill().expect("a child can be killed");
            panic!("{example}: did not end within {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs an example with flags separated by spaces. The output must fit into a pipe.
fn run(example: &str, flags: &str) -> Output {
    let mut child = start(example, flags);
    ends(&format!("{example} {flags}"), &mut child);
    child.wait_with_output().expect("the child's output can be read")
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::to_owned).collect()
}

/// Asserts that a run is verified, and returns the lines that start with one of `results`.
fn verified(example: &str, flags: &str, results: &[&str]) -> Vec<String> {
    let output = run(example, flags);
    let mut lines = lines(&output);
    assert_eq!(output.status.code(), Some(0), "{example} {flags}: {output:?}");
    assert_eq!(lines.last().map(String::as_str), Some("VERIFIED"), "{example} {flags}");
    assert!(lines.iter().any(|line| line.starts_with("time ")), "{example} {flags}");
    let messages = String::from_utf8_lossy(&output.stderr);
    // A program that takes long writes lines with its progress.
    let is_progress = |line: &str| line.starts_with("thalweg: ") && line.contains(" tasks done");
    let is_expected = |line: &str| line.starts_with("warning: ") || is_progress(line);
    assert!(messages.lines().all(is_expected), "a bar without a terminal: {messages:?}");
    lines.retain(|line| results.iter().any(|start| line.starts_with(start)));
    lines
}

/// Asserts that the results are the same to the last printed digit on every machine and with both schedulers.
fn agrees_everywhere(example: &str, flags: &str, results: &[&str]) {
    let expected = verified(example, flags, results);
    assert_eq!(expected.len(), results.len(), "{expected:?}");
    for units in MACHINES {
        for scheduler in ["stealing", "dynamic"] {
            let flags = format!("{flags} --units {units} --scheduler {scheduler}");
            assert_eq!(verified(example, &flags, results), expected, "{example} {flags}");
        }
    }
}

#[test]
fn every_numbered_example_checks_its_result() {
    let steps = ["01_hello", "02_reduction", "03_stencil", "04_pipeline"];
    let more =
        ["05_matmul", "06_gpu_axpy", "07_failure", "08_simulate", "09_own_scheduler", "10_own_opencl", "11_cublas"];
    for step in steps.into_iter().chain(more).chain(["13_several_devices"]) {
        let output = run(step, "");
        assert!(output.status.success() && !output.stdout.is_empty(), "{step}: {output:?}");
    }
}

/// The signal is sent when the program has printed that it searches, which is after it has installed its handler.
#[cfg(unix)]
#[test]
fn ctrl_c_cancels_the_group_and_the_program_succeeds() {
    use std::io::{BufRead, BufReader, Read};

    let mut child = start("12_ctrl_c", "1000000000");
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.starts_with("searching"), "{line}");
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    ends("12_ctrl_c", &mut child);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {rest}");
    assert_eq!(rest.lines().last(), Some("cancelled"), "{rest}");
}

#[test]
fn hello_runs_everywhere() {
    agrees_everywhere("hello", "--size 200001", &[]);
}

#[test]
fn jacobi_gives_the_same_answer_everywhere() {
    agrees_everywhere("jacobi", "--size 48 --block 20", &["48 x 48", "error"]);
}

#[test]
fn quicksort_gives_the_same_answer_everywhere() {
    agrees_everywhere("quicksort", "--size 3000 --leaf 20", &["3000 elements"]);
    verified("quicksort", "--size 3000 --leaf 20 --serial", &[]);
    agrees_everywhere("quicksort", "--size 3000 --leaf 20 --forks", &["3000 elements"]);
    verified("quicksort", "--size 0", &[]);
}

#[test]
fn strassen_gives_the_same_answer_everywhere() {
    agrees_everywhere("strassen", "--size 36 --leaf 9", &["36 rows"]);
    verified("strassen", "--size 75", &[]);
    verified("strassen", "--size 36 --leaf 9 --serial", &[]);
}

#[test]
fn sparse_gives_the_same_answer_everywhere() {
    agrees_everywhere("sparse", "--size 20 --block 70", &["400 rows", "eigenvalue"]);
    verified("sparse", "--size 20 --serial", &[]);
}

#[test]
fn ingest_gives_the_same_answer_everywhere() {
    agrees_everywhere("ingest", "--size 64 --senders 3 --messages 5", &["total"]);
    verified("ingest", "--size 64 --senders 3 --messages 5 --serial", &["total"]);
}

/// On an accelerator, the results must also be the same to the last printed digit.
#[test]
fn annotated_loops_give_the_same_answer_everywhere() {
    for (example, flags, results) in [
        ("vecadd", "--size 10001 --block 3000", &["10001 elements"][..]),
        ("compact", "--size 20011 --limit 0.6", &["found"][..]),
        ("compact", "--size 0", &["found 0 of 0"][..]),
        ("compact", "--size 100 --limit 2", &["found 0 of 100"][..]),
        ("macc_tasks", "--size 5000", &["0 copies to the host"][..]),
        ("macc_jacobi", "--size 34 --sweeps 40", &["34 x 34", "change"][..]),
        ("macc_cg", "--size 12", &["144 unknowns", "residual"][..]),
        ("dg", "--size 50 --steps 2", &["50 elements"][..]),
    ] {
        let expected = verified(example, flags, results);
        assert_eq!(expected.len(), results.len(), "{example}");
        let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
        let accelerated = required.contains("opencl").then_some("1:OPENCL:1");
        for units in ["1:CPU:2"].into_iter().chain(accelerated) {
            assert_eq!(verified(example, &format!("{flags} --units {units}"), results), expected, "{example} {units}");
        }
    }
}

/// Ozen et al. 2014, the slide on Jacobi: directions alone move as little as hand-placed data regions.
#[test]
fn annotated_jacobi_copies_as_little_as_data_regions_by_hand() {
    let line = verified("macc_jacobi", "--size 34 --sweeps 40 --units 1:EMU:1", &["copied "]).remove(0);
    let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    let [copied, baseline, optimised] = numbers[..] else { panic!("{line}") };
    assert!(optimised < copied && copied < optimised + 40 * 16 && 50 * copied < baseline, "{line}");
}

#[test]
fn cg_gives_the_same_answer_everywhere() {
    agrees_everywhere("cg", "--class S --blocks 6", &["zeta", "error"]);
}

#[test]
fn cg_repeats_iterations_until_the_residual_is_small() {
    agrees_everywhere("cg", "--class S --blocks 6 --until 1e-22", &["zeta", "error"]);
}

#[test]
fn cg_accepts_size_for_class_and_prints_every_step() {
    assert_eq!(verified("cg", "--size s --verbose", &["  "]).len(), 15);
}

#[test]
fn tiles_and_clusters_give_the_same_answer_everywhere() {
    agrees_everywhere("cholesky", "--size 200 --tile 48", &["200 x 200, error "]);
    agrees_everywhere("cholesky", "--size 200 --tile 48 --nested", &["200 x 200, error "]);
    verified("cholesky", "--size 20 --tile 48 --nested", &[]);
    agrees_everywhere("smith_waterman", "--size 300 --tile 64", &["best score "]);
    agrees_everywhere("kmeans", "--size 2000 --block 300 --iterations 5", &["first centre "]);
}

#[test]
fn hybrid_programs_are_right_for_every_division_of_rows() {
    for (example, flags) in [("matmul", "--size 70 --blocks 9"), ("fft2d", "--size 32 --blocks 9")] {
        agrees_everywhere(example, flags, &[]);
        let fpm = "--units 1:CPU:1,1:EMU:1 --power CPU=0.5:4,EMU=1:2 --scheduler fpm:objective=energy";
        let lines = verified(example, &format!("{flags} {fpm}"), &["shares: ", "energy of "]);
        assert_eq!(lines.len(), 3, "{lines:?}");
        verified(example, &format!("{flags} --units 1:CPU:2 --alone"), &[]);
    }
}

#[test]
fn comparison_tries_every_split_of_a_product() {
    let both = "--units 1:CPU:1,1:EMU:1 --no-progress";
    let output = run("matmul", &format!("--size 60 --blocks 5 --steps 2 --compare --splits {both}"));
    let text = lines(&output).join("\n");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text.contains("both, the fastest split") && text.contains(" of 5 blocks to the CPU"), "{text}");
    assert!(text.ends_with("VERIFIED"), "{text}");
}

/// Farrelly et al. 2024 report of their server: both together are the fastest, equal GPUs get equal shares, and the
/// CPU alone needs the least energy.
#[test]
fn simulated_server_divides_a_product_as_the_real_one_did() {
    let server = "--units 1:CPU:62,2:GPU:1 --simulate machines/icelake-2xa40.toml";
    let output = run("matmul", &format!("--size 20480 --compare {server} --blocks 256 --steps 6"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = lines(&output);
    let figures = |who: &str| -> [f64; 2] {
        let line = lines.iter().find(|line| line.contains(who)).unwrap_or_else(|| panic!("no {who} in {lines:?}"));
        let cells: Vec<&str> = line.split(['|', '┆', '│']).map(str::trim).filter(|cell| !cell.is_empty()).collect();
        [cells[4], cells[5]].map(|cell| cell.parse().unwrap_or_else(|_| panic!("{cell} in {line}")))
    };
    let [cpu, devices, both, thrifty] =
        ["CPU alone", "devices alone", "both, by time", "both, by energy "].map(figures);
    assert!(both[0] < 0.75 * cpu[0] && both[0] < 0.75 * devices[0], "{both:?} {cpu:?} {devices:?}");
    assert!(thrifty[1] < 0.9 * both[1] && thrifty[1] < 0.9 * devices[1], "{thrifty:?}");
    assert!((thrifty[1] / cpu[1] - 1.0).abs() < 0.03, "as the CPU alone: {thrifty:?} {cpu:?}");
    let output = run("matmul", &format!("--size 20480 {server} --blocks 256 --steps 6 --scheduler fpm --no-progress"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let shares = text.lines().find_map(|line| line.strip_prefix("shares: ")).unwrap_or_else(|| panic!("{text}"));
    let sizes: Vec<f64> =
        shares.split(" of ").next().unwrap_or("").split(" + ").map(|d| d.parse().unwrap_or(0.0)).collect();
    assert!((sizes[1] - sizes[2]).abs() <= 80.0 && sizes.iter().sum::<f64>() == 20480.0, "{sizes:?}");
}

#[test]
fn plain_loops_give_the_same_answer() {
    let programs = [
        ("cholesky", "--size 200 --tile 48", "200 x 200, error "),
        ("smith_waterman", "--size 300 --tile 64", "best score "),
        ("kmeans", "--size 2000 --block 300 --iterations 5", "first centre "),
    ];
    for (example, flags, result) in programs {
        let tasks = verified(example, flags, &[result]);
        assert_eq!(verified(example, &format!("{flags} --serial"), &[result]), tasks);
    }
}

#[test]
fn npb_mz_gives_the_same_answer_everywhere() {
    // Only LU, class S: without optimization the others take long. `.ci/run` runs all of them.
    agrees_everywhere("npb_mz", "lu --class S", &["residual 1 ", "error 5 ", "surface "]);
    agrees_everywhere("npb_mz", "lu --class S --fuse stages", &["residual 1 ", "error 5 ", "surface "]);
}

#[test]
fn npb_mz_without_reference_values_is_not_compared() {
    let output = run("npb_mz", "sp --niter 2 --periods");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(lines(&output).last().map(String::as_str), Some("NOT COMPARED"));
    for period in ["computation period ", "communication period "] {
        assert!(lines(&output).iter().any(|line| line.starts_with(period)), "{output:?}");
    }
}

#[test]
fn oversized_class_is_refused_with_the_memory_it_needs() {
    // 120 bytes per point; whole steps also need their zones' faces, a thirtieth of that.
    for (fuse, needed) in [("step", "26951680000 points need 3084"), ("whole", "26951680000 points need 3184")] {
        let output = run("npb_mz", &format!("bt --class F --fuse {fuse}"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(message.contains(needed), "{message}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn whole_steps_have_no_periods() {
    let output = run("npb_mz", "sp --periods --fuse whole");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(message.contains("cannot time the periods of whole steps"), "{message}");
    assert!(output.stdout.is_empty());
}

#[test]
fn every_program_can_be_simulated() {
    for (example, flags) in [
        ("hello", ""),
        ("jacobi", ""),
        ("cholesky", ""),
        ("smith_waterman", ""),
        ("kmeans", ""),
        ("cg", "--class S"),
        ("sparse", "--size 20 --steps 3"),
        ("quicksort", "--size 100"),
        ("strassen", "--size 64 --leaf 8"),
        ("matmul", "--size 10000"),
        ("fft2d", "--size 4096"),
        ("npb_mz", "bt --class A"),
        ("npb_mz", "lu --class E --niter 1"),
    ] {
        let output = run(example, &format!("{flags} --simulate machines/laptop.toml --no-progress"));
        assert_eq!(output.status.code(), Some(0), "{example}: {output:?}");
        let lines = lines(&output);
        assert_eq!(lines.first().map(String::as_str), Some("simulated: laptop"), "{example}");
        assert_eq!(lines.last().map(String::as_str), Some("NOT COMPARED"), "{example}");
    }
    let output = run("hello", "--simulate machines/of-nobody.toml");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: machines/of-nobody.toml: "));
}

#[test]
fn wrong_result_fails() {
    let output = run("jacobi", "--size 48 --max-iterations 20");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(lines(&output).last().map(String::as_str), Some("NOT VERIFIED"));
}

#[test]
fn bad_values_are_named_and_refused() {
    for example in ["hello", "jacobi", "cg", "sparse", "cholesky", "smith_waterman", "kmeans", "matmul", "fft2d"] {
        for (flags, named) in [
            ("--units 3:XPU:1", "XPU"),
            ("--units 0:CPU:1", "0"),
            ("--scheduler fastest", "fastest"),
            ("--size 0", "--size"),
            ("--size many", "many"),
            ("--colour", "--colour"),
        ] {
            let output = run(example, flags);
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{example} {flags}: {output:?}");
            assert!(message.starts_with("error: "), "{example} {flags}: {message}");
            // cg reports the flag's first name instead of its alias.
            let named = if example == "cg" { named.replace("--size", "--class") } else { named.to_owned() };
            assert!(message.contains(&named), "{example} {flags}: {message}");
            assert!(output.stdout.is_empty(), "{example} {flags}: {output:?}");
        }
    }
    for (example, flags) in [
        ("jacobi", "--tolerance -1"),
        ("jacobi", "--tolerance nan"),
        ("jacobi", "--block 0"),
        ("cg", "--blocks 0"),
        ("sparse", "--block 0"),
        ("npb_mz", "--class S"),
        ("npb_mz", "ft"),
        ("npb_mz", "bt --class Q"),
        ("npb_mz", "bt --niter 0"),
        ("npb_mz", "bt --units 0:CPU:1"),
        ("npb_mz", "bt --scheduler fastest"),
        ("npb_mz", "bt --serial --units 3:XPU:1"),
        ("npb_mz", "bt --serial --scheduler dynamic"),
        ("npb_mz", "bt --serial --simulate machines/laptop.toml"),
        ("npb_mz", "bt --serial --periods"),
        ("matmul", "--power CPU=5"),
        ("matmul", "--power CPU=5:4"),
        ("matmul", "--compare"),
        ("matmul", "--compare --units 2:CPU:1"),
        ("matmul", "--splits"),
        ("matmul", "--compare --splits --units 2:CPU:1,1:EMU:1"),
        ("matmul", "--alone --scheduler dynamic"),
        ("fft2d", "--size 100"),
        ("npb_mz", "bt --fuse planes --simulate machines/laptop.toml"),
        ("cholesky", "--serial --units 1:CPU:1"),
        ("smith_waterman", "--serial --scheduler dynamic"),
        ("kmeans", "--serial --simulate machines/laptop.toml"),
    ] {
        assert_eq!(run(example, flags).status.code(), Some(2), "{example} {flags}");
    }
}

#[test]
fn help_names_the_common_flags() {
    for example in [
        "hello",
        "jacobi",
        "cg",
        "npb_mz",
        "sparse",
        "ingest",
        "quicksort",
        "strassen",
        "cholesky",
        "smith_waterman",
        "kmeans",
        "matmul",
        "fft2d",
    ] {
        let output = run(example, "--help");
        let text = lines(&output).join("\n");
        assert_eq!(output.status.code(), Some(0));
        for flag in ["--units", "--scheduler", "--simulate", "--size", "--help", "--no-progress"] {
            assert!(text.contains(flag), "{example} --help does not name {flag}");
        }
    }
}
