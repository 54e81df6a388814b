//! Two ranks against StarPU-MPI, MPI by hand, and two units of one process: a tiled Cholesky factorization, and a value
//! that tasks pass to and fro. Also the time of a task that a rank leaves out.
//!
//! ```text
//! cargo bench -p thalweg-mpi --bench ranks [-- SIZE TILE ROUNDS]
//! ```
//!
//! All contenders call the kernels of `contenders/kernels.c` and have the same owners. They run one after the other,
//! in several rounds, each in new processes that are not bound to cores; the medians count. A contender whose library
//! is missing is skipped. Run by `cargo test`, the bench checks on a small matrix that all compute the same.

use libloading::{Library, Symbol};
use std::env::{args, current_exe, var};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use thalweg::Runtime;
use thalweg_mpi::{Cluster, ClusterData};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Ranks, unless a contender is a single process.
const RANKS: usize = 2;

/// Seconds after which a contender has failed.
const LIMIT: &str = "300";

/// The functions of `kernels.c`.
#[derive(Clone, Copy)]
struct Kernels {
    fill: unsafe extern "C" fn(*mut f64, i64, i64, i64, i64),
    potrf: unsafe extern "C" fn(*mut f64, i64),
    trsm: unsafe extern "C" fn(*const f64, *mut f64, i64),
    gemm: unsafe extern "C" fn(*const f64, *const f64, *mut f64, i64),
}

#[allow(unsafe_code, reason = "the kernels are in C, so that all contenders call the same code")]
impl Kernels {
    fn load(library: &str) -> Result<Self> {
        // SAFETY: the bench has built the library, whose functions have these types. It stays loaded.
        unsafe {
            let library = Box::leak(Box::new(Library::new(library)?));
            let (fill, potrf): (Symbol<'_, _>, Symbol<'_, _>) = (library.get(b"fill")?, library.get(b"potrf")?);
            let (trsm, gemm): (Symbol<'_, _>, Symbol<'_, _>) = (library.get(b"trsm")?, library.get(b"gemm")?);
            Ok(Self { fill: *fill, potrf: *potrf, trsm: *trsm, gemm: *gemm })
        }
    }

    fn fill(self, a: &mut [f64], [i, j]: [usize; 2], [order, rows]: [usize; 2]) {
        assert!(a.len() >= order * order);
        // SAFETY: the kernel writes a square tile of this order, which the slice contains.
        unsafe { (self.fill)(a.as_mut_ptr(), i as i64, j as i64, order as i64, rows as i64) }
    }

    fn potrf(self, a: &mut [f64], order: usize) {
        assert!(a.len() >= order * order);
        // SAFETY: the kernel uses a square tile of this order, which the slice contains.
        unsafe { (self.potrf)(a.as_mut_ptr(), order as i64) }
    }

    fn trsm(self, l: &[f64], a: &mut [f64], order: usize) {
        assert!(l.len().min(a.len()) >= order * order);
        // SAFETY: the kernel uses square tiles of this order, which the slices contain.
        unsafe { (self.trsm)(l.as_ptr(), a.as_mut_ptr(), order as i64) }
    }

    fn gemm(self, a: &[f64], b: &[f64], c: &mut [f64], order: usize) {
        assert!(a.len().min(b.len()).min(c.len()) >= order * order);
        // SAFETY: the kernel uses square tiles of this order, which the slices contain.
        unsafe { (self.gemm)(a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), order as i64) }
    }

    /// Factorizes a matrix on all ranks, and returns the seconds and the sum of the factor's diagonal.
    fn factorize(self, cluster: &Cluster, size: usize, tile: usize) -> Result<(f64, f64)> {
        let tiles = size.div_ceil(tile);
        let make = |_| cluster.distributed(tiles * tile * tile, tile * tile, |at| at.tile[0] % at.ranks);
        // Tile (i, j) is tile j of row i.
        let a: Vec<ClusterData<f64>> = (0..tiles).map(make).collect();
        for i in 0..tiles {
            for j in 0..=i {
                let task = cluster.task("fill", a[i].nth(j).output());
                task.cpu(move |_, a| self.fill(a, [i, j], [tile, size])).submit()?;
            }
        }
        cluster.wait()?;
        let begin = Instant::now();
        for k in 0..tiles {
            let pivot = a[k].nth(k);
            cluster.task("potrf", pivot.inout()).cpu(move |_, a| self.potrf(a, tile)).submit()?;
            for below in &a[k + 1..] {
                let task = cluster.task("trsm", (pivot.input(), below.nth(k).inout()));
                task.cpu(move |_, (l, a)| self.trsm(l, a, tile)).submit()?;
            }
            cluster.release(pivot)?;
            for i in k + 1..tiles {
                for j in k + 1..i {
                    let task = cluster.task("gemm", (a[i].nth(k).input(), a[j].nth(k).input(), a[i].nth(j).inout()));
                    task.cpu(move |_, (a, b, c)| self.gemm(a, b, c, tile)).submit()?;
                }
                let task = cluster.task("syrk", (a[i].nth(k).input(), a[i].nth(i).inout()));
                task.cpu(move |_, (a, c)| self.gemm(a, a, c, tile)).submit()?;
            }
            a[k + 1..].iter().try_for_each(|row| cluster.release(row.nth(k)))?;
        }
        cluster.wait()?;
        let seconds = begin.elapsed().as_secs_f64();
        let mut sum = 0.0;
        for (k, row) in a.iter().enumerate() {
            let diagonal = cluster.read(row.nth(k))?;
            sum += (0..tile).map(|at| diagonal[at * tile + at]).sum::<f64>();
        }
        Ok((seconds, sum))
    }
}

/// Returns the seconds from a task on one rank to the next on the other.
fn ping(cluster: &Cluster, rounds: usize) -> Result<f64> {
    let (x, y) = (cluster.data(0, vec![0.0]), cluster.data(cluster.ranks() - 1, vec![0.0]));
    cluster.wait()?;
    let begin = Instant::now();
    for _ in 0..rounds {
        cluster.task("to", (x.input(), y.output())).cpu(|_, (x, y)| y[0] = x[0] + 1.0).submit()?;
        cluster.task("fro", (y.input(), x.output())).cpu(|_, (y, x)| x[0] = y[0] + 1.0).submit()?;
    }
    cluster.wait()?;
    Ok(begin.elapsed().as_secs_f64() / (2 * rounds) as f64)
}

/// Returns the seconds for a task that does not concern this rank.
fn prune(cluster: &Cluster, tasks: usize) -> f64 {
    let other = (cluster.rank() + 1) % cluster.ranks();
    let x: ClusterData<f64> = cluster.distributed(1000, 1, |_| other); // each rank pretends to own nothing
    let begin = Instant::now();
    let mut local = 0;
    for task in 0..tasks {
        let (from, to) = (x.nth(task % 1000), x.nth((task + 1) % 1000));
        local += usize::from(cluster.is_local(&(from.input(), to.inout())));
    }
    assert_eq!(local, 0);
    begin.elapsed().as_secs_f64() / tasks as f64
}

/// Runs as a rank: `thalweg LIBRARY UNITS cholesky SIZE TILE`, or with `ping` or `prune` and a number of rounds or
/// tasks. Rank 0 prints seconds and a check.
fn rank(arguments: &[String]) -> Result<()> {
    let [library, units, problem, numbers @ ..] = arguments else { return Err("too few arguments".into()) };
    let numbers: Vec<usize> = numbers.iter().map(|text| text.parse()).collect::<std::result::Result<_, _>>()?;
    let cluster = Cluster::init(Runtime::builder().compute_units(&**units).pin_threads(false))?;
    let (seconds, check) = match &**problem {
        "cholesky" => Kernels::load(library)?.factorize(&cluster, numbers[0], numbers[1])?,
        "prune" => (prune(&cluster, numbers[0]), 0.0),
        _ => (ping(&cluster, numbers[0])?, 0.0),
    };
    if cluster.rank() == 0 {
        println!("{seconds:.9} {check:.6}");
    }
    Ok(cluster.wait()?)
}

/// Runs a command and returns its output. The error is a line of its messages.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(errors.lines().find(|line| line.contains("error")).unwrap_or(&errors).to_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// A program that computes both problems.
struct Contender {
    name: &'static str,
    ranks: usize,
    command: Vec<String>,
}

impl Contender {
    /// Returns the seconds and the check.
    fn run(&self, problem: &[String]) -> Result<(f64, f64)> {
        let mut command = Command::new("timeout");
        command.args([LIMIT, "mpirun"]);
        if output(Command::new("mpirun").arg("--version"))?.contains("Open MPI") {
            command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
        }
        command.args(["-np", &self.ranks.to_string()]).args(&self.command).args(problem);
        let starpu = ["NCPU=1", "SILENT=1", "WORKERS_NOBIND=1", "NCUDA=0", "NOPENCL=0"];
        command.envs(
            starpu.iter().filter_map(|pair| pair.split_once('=')).map(|(key, value)| (format!("STARPU_{key}"), value)),
        );
        let text = output(&mut command)?;
        let (seconds, check) = text.trim().split_once(' ').ok_or_else(|| format!("{} prints {text}", self.name))?;
        Ok((seconds.parse()?, check.parse()?))
    }
}

/// Builds the contenders in C, and returns those that can be built.
fn contenders(folder: &Path) -> Result<Vec<Contender>> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/contenders");
    let library = folder.join("libkernels.so");
    let flags = ["-std=gnu11", "-O3", "-ffp-contract=off", "-Wall", "-Wextra"];
    output(
        Command::new("cc")
            .args(flags)
            .args(["-fPIC", "-shared"])
            .arg(sources.join("kernels.c"))
            .arg("-lm")
            .arg("-o")
            .arg(&library),
    )?;
    let thalweg = |name, ranks, units: &str| -> Result<Contender> {
        let program = current_exe()?.display().to_string();
        let command = vec![program, "thalweg".to_owned(), library.display().to_string(), units.to_owned()];
        Ok(Contender { name, ranks, command })
    };
    let mut all = vec![thalweg("thalweg", RANKS, "1:CPU:1")?, thalweg("thalweg, one process", 1, "2:CPU:1")?];
    for (name, package) in [("by hand", None), ("StarPU-MPI", Some("starpumpi-1.3"))] {
        let file = if package.is_some() { "starpu" } else { "by_hand" };
        let program = folder.join(file);
        let build = || -> Result<()> {
            let packages =
                package.map(|package| output(Command::new("pkg-config").args(["--cflags", "--libs", package])));
            let packages = packages.transpose()?.unwrap_or_default();
            let mut compiler = Command::new("mpicc");
            compiler.args(flags).arg(sources.join(format!("{file}.c"))).args(packages.split_whitespace());
            compiler.arg(&library).arg(format!("-Wl,-rpath,{}", folder.display())).arg("-o").arg(&program);
            output(&mut compiler).map(drop)
        };
        match build() {
            Ok(()) => all.push(Contender { name, ranks: RANKS, command: vec![program.display().to_string()] }),
            Err(problem) => println!("skipped: {name}: {problem}"),
        }
    }
    Ok(all)
}

/// Runs all contenders in turn, and prints the median of each and its ratio to the first.
fn compare(all: &[Contender], title: &str, problem: &[String], rounds: usize) -> Result<()> {
    println!("{title}");
    let mut times = vec![Vec::new(); all.len()];
    let mut expected = None;
    for _ in 0..rounds {
        for (contender, times) in all.iter().zip(&mut times) {
            let (seconds, check) = contender.run(problem)?;
            let expected = *expected.get_or_insert(check);
            assert!((check - expected).abs() <= 1e-9 * expected.abs(), "{}: {check}, not {expected}", contender.name);
            times.push(seconds);
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let medians: Vec<f64> = times.iter_mut().map(median).collect();
    for ((contender, times), median) in all.iter().zip(&times).zip(&medians) {
        let (median_us, least_us, ratio) = (median * 1e6, times[0] * 1e6, median / medians[0]);
        println!("{:<24} {median_us:>14.3} us, least {least_us:>14.3} us, {ratio:>6.2} times thalweg", contender.name);
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = args().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.first().is_some_and(|role| role == "thalweg") {
        return rank(&arguments[1..]);
    }
    if Command::new("mpirun").arg("--version").output().is_err() {
        let required = var("THALWEG_REQUIRE").is_ok_and(|names| names.split(',').any(|name| name == "mpirun"));
        assert!(!required, "mpirun is required, but not installed");
        println!("skipped: mpirun is not installed");
        return Ok(());
    }
    let is_bench = args().any(|argument| argument == "--bench");
    let number = |at: usize, bench: usize, test: usize| {
        let given = arguments.get(at).filter(|_| is_bench).and_then(|text| text.parse().ok());
        given.unwrap_or(if is_bench { bench } else { test })
    };
    let (size, tile, rounds) = (number(0, 4096, 200), number(1, 256, 50), number(2, 5, 1));
    let folder = tempfile::tempdir()?;
    let all = contenders(folder.path())?;
    let words = |words: &[&dyn ToString]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    compare(&all, &format!("Cholesky {size}/{tile}"), &words(&[&"cholesky", &size, &tile]), rounds)?;
    let hops = if is_bench { 3000 } else { 20 };
    compare(&all, "a hop from task to task", &words(&[&"ping", &hops]), rounds)?;
    compare(&all[..1], "a task that a rank leaves out", &words(&[&"prune", &(1000 * hops)]), rounds)
}
