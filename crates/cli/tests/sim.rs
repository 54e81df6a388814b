//! End-to-end tests of `thalweg sim` on traces that the tests record.
//!
//! Most traces are recorded from simulated runs, so each task's time and the makespans of replays are known to the
//! nanosecond.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use thalweg::prelude::*;
use thalweg::{Builder, Context};
use thalweg_trace::Trace;

/// Four cores, on which tasks named `work` and `step` take 1 and 2 ms.
const CORES: &str = r#"
    name = "four cores"
    [units.CPU]
    count = 4
    bytes_per_s = 1e12
    [[tasks]]
    name = "work"
    time_ns = { CPU = { 1 = 1_000_000 } }
    [[tasks]]
    name = "step"
    time_ns = { CPU = { 1 = 2_000_000 } }
    [[tasks]]
    name = "costly"
    cost = 1
    time_ns = { CPU = { 1 = 10_000 } }
"#;

/// Cores and two GPUs with links of 1 GB/s. For `work`, a GPU is ten times as fast as a core.
const GPUS: &str = r#"
    name = "two GPUs"
    [units.CPU]
    count = 8
    bytes_per_s = 1e12
    [units.GPU]
    count = 2
    memory_bytes = 1_000_000_000
    bytes_per_s = 1e12
    [[links]]
    between = ["host", "GPU"]
    latency_ns = 1000
    bytes_per_s = 1e9
    [[tasks]]
    name = "wor*"
    time_ns = { CPU = { 1 = 70_000 }, GPU = { 1 = 7_000 } }
"#;

/// A folder with a trace and machine files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("cores.toml", CORES);
        folder.write("gpus.toml", GPUS);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Runs a program and records it to `run.thw`.
    fn record(&self, builder: Builder, program: impl FnOnce(&Runtime)) -> Trace {
        let path = self.path("run.thw");
        let rt = builder.trace(&path).build().unwrap();
        program(&rt);
        drop(rt);
        Trace::read(&path).unwrap()
    }

    /// Records a simulated run on some of the four cores.
    fn simulate(&self, units: &str, program: impl FnOnce(&Runtime)) -> Trace {
        let machine: SimulatedMachine = CORES.parse().unwrap();
        self.record(Runtime::builder().compute_units(units).simulate(machine).trace_accesses(true), program)
    }

    /// Calls `thalweg sim run.thw` in the folder, and returns its output.
    fn sim(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let output = command.args(["sim", "run.thw"]).args(arguments).current_dir(self.0.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }
}

/// Returns the lines of the table without the machine's name: units, scheduler, makespan, speed-up, busy, copied.
fn lines(text: &str) -> Vec<Vec<String>> {
    let table = text.lines().skip_while(|line| !line.starts_with("machine")).skip(1);
    let lines = table.take_while(|line| !line.is_empty());
    let cells = lines.map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).skip(1));
    cells.map(|cells| cells.map(str::to_owned).collect()).collect()
}

/// Returns the makespan in each line of the table.
fn makespans(text: &str) -> Vec<String> {
    lines(text).into_iter().map(|mut line| line.swap_remove(2)).collect()
}

fn empty(_: &Context, _: (&mut [f64],)) {}

fn chain(rt: &Runtime) {
    let x = rt.zeros::<f64, _>(1000);
    for _ in 0..6 {
        rt.task("work", (x.inout(),)).cpu(empty).submit().unwrap();
    }
    rt.wait().unwrap();
}

/// Twelve independent tasks, then one that reads all their data.
fn fork_join(rt: &Runtime) {
    let x = rt.zeros::<f64, _>(1200);
    let total = rt.zeros::<f64, _>(1);
    rt.for_each("work", x.blocks(100).output()).cpu(|_, _| ()).submit().unwrap();
    rt.task("step", (x.input(), total.output())).cpu(|_, _| ()).submit().unwrap();
    rt.wait().unwrap();
}

/// Six by six tiles, each of which follows the tiles above it and to its left because it reads their borders.
fn wavefront(rt: &Runtime) {
    const TILE: usize = 16;
    let x = rt.zeros::<f64, _>([6 * TILE, 6 * TILE]);
    for i in 0..6 {
        for j in 0..6 {
            let (rows, columns) = (i * TILE..(i + 1) * TILE, j * TILE..(j + 1) * TILE);
            let above = (i > 0).then(|| x.block((i * TILE - 1..i * TILE, columns.clone())).input());
            let left = (j > 0).then(|| x.block((rows.clone(), j * TILE - 1..j * TILE)).input());
            let borders: Vec<_> = above.into_iter().chain(left).collect();
            let tile = x.block((rows, columns)).inout();
            rt.task("work", (borders, tile)).cpu(|_, _| ()).submit().unwrap();
        }
    }
    rt.wait().unwrap();
}

#[test]
fn chain_takes_the_sum_of_its_times_on_any_units() {
    let folder = Folder::new();
    folder.simulate("2:CPU:1", chain);
    let text = folder.sim(&["--machine", "cores.toml", "--scheduler", "stealing,eft,dynamic:chunk=1,memo=2"]).unwrap();
    assert!(text.starts_with("recorded: 6 tasks on 2:CPU:1 by stealing, makespan 6.000 ms\n"), "{text}");
    assert!(text.contains("check: the same run simulated, makespan 6.000 ms, error +0.0 %\n"), "{text}");
    let line = |scheduler: &str| ["4:CPU:1", scheduler, "6.000 ms", "1.00", "CPU 25.0 %", "0 B"].map(str::to_owned);
    assert_eq!(lines(&text), ["stealing", "eft", "dynamic:chunk=1,memo=2"].map(line));
}

#[test]
fn fork_join_divides_by_the_number_of_units() {
    let folder = Folder::new();
    folder.simulate("1:CPU:1", fork_join);
    for (units, makespan) in [("1:CPU:1", "14.000 ms"), ("3:CPU:1", "6.000 ms"), ("4:CPU:1", "5.000 ms")] {
        let text = folder.sim(&["--machine", "cores.toml", "--units", units]).unwrap();
        assert_eq!(makespans(&text), [makespan], "{text}");
    }
    // Units beyond the recorded ones are treated as cores that do not slow each other down.
    assert_eq!(makespans(&folder.sim(&["--units", "12:CPU:1"]).unwrap()), ["3.000 ms"]);
    // Two cores of a unit halve a task's time.
    assert_eq!(makespans(&folder.sim(&["--units", "2:CPU:2"]).unwrap()), ["4.000 ms"]);
}

#[test]
fn wavefront_takes_as_many_steps_as_it_has_diagonals() {
    let folder = Folder::new();
    let trace = folder.simulate("1:CPU:1", wavefront);
    assert!(trace.regions.iter().any(|region| region.text == "[15..16, 16..32]"), "{:?}", trace.regions);
    let text = folder.sim(&["--units", "6:CPU:1"]).unwrap();
    assert_eq!(makespans(&text), ["11.000 ms"]);
    // On two units, the first and the last tile run alone, and the other 34 run in pairs.
    assert_eq!(makespans(&folder.sim(&["--units", "2:CPU:1"]).unwrap()), ["19.000 ms"]);
}

#[test]
fn tasks_keep_their_own_times() {
    let folder = Folder::new();
    folder.simulate("1:CPU:1", |rt| {
        let x = rt.zeros::<f64, _>(2);
        for (index, cost) in [(0, 1.0), (1, 3.5), (0, 2.0)] {
            rt.task("costly", (x.slice(index).inout(),)).cost(cost).cpu(empty).submit().unwrap();
        }
        rt.wait().unwrap();
    });
    assert_eq!(makespans(&folder.sim(&["--units", "2:CPU:1"]).unwrap()), ["35.000 us"]);
    assert_eq!(makespans(&folder.sim(&["--units", "1:CPU:1"]).unwrap()), ["65.000 us"]);
}

#[test]
fn times_on_devices_are_relative_to_the_file_or_scaled() {
    let folder = Folder::new();
    folder.simulate("1:CPU:1", chain);
    // Copying 8000 bytes to the device takes 1 + 8 us, and each of the six tasks takes a tenth or a twentieth of 1
    // ms.
    let on_gpu = ["--machine", "gpus.toml", "--units", "1:GPU:1"];
    let text = folder.sim(&on_gpu).unwrap();
    let expected = ["1:GPU:1", "stealing", "609.000 us", "9.85", "GPU 98.5 %", "8.0 kB"];
    assert_eq!(lines(&text), [expected], "{text}");
    let scaled = [&on_gpu[..], &["--scale", "GPU=20"]].concat();
    assert_eq!(makespans(&folder.sim(&scaled).unwrap()), ["309.000 us"]);
    let both = folder.sim(&["--scale", "cpu=2,GPU=20", "--machine", "cores.toml,gpus.toml"]).unwrap();
    assert_eq!(makespans(&both).len(), 2);
    assert_eq!(makespans(&both)[0], "3.000 ms");
}

#[test]
fn times_of_a_file_without_cores_are_taken_as_they_are() {
    let folder = Folder::new();
    folder.simulate("1:CPU:1", chain);
    let only_gpu = |key: &str| GPUS.replace("CPU = { 1 = 70_000 }, ", "").replace("time_ns", key);
    let on_gpu = ["--machine", "gpus.toml", "--units", "1:GPU:1"];
    folder.write("gpus.toml", &only_gpu("time_ns"));
    assert_eq!(makespans(&folder.sim(&on_gpu).unwrap()), ["51.000 us"]); // 9 us and six times 7 us
    folder.write("gpus.toml", &only_gpu("bytes = 4000\n    time_ns"));
    assert_eq!(makespans(&folder.sim(&on_gpu).unwrap()), ["93.000 us"]); // twice as many bytes
}

#[test]
fn measured_times_hold_at_the_recorded_load() {
    let folder = Folder::new();
    folder.simulate("4:CPU:1", |rt| {
        let x = rt.zeros::<f64, _>(800);
        rt.for_each("work", x.blocks(100).output()).cpu(|_, _| ()).submit().unwrap();
        rt.wait().unwrap();
    });
    // The run was recorded with four busy cores. With two busy cores, a task takes two thirds of the time.
    folder.write("cores.toml", &CORES.replace("1 = 1_000_000", "1 = 100, 2 = 100, 4 = 150"));
    let at = |units| makespans(&folder.sim(&["--machine", "cores.toml", "--units", units]).unwrap());
    assert_eq!((at("4:CPU:1"), at("2:CPU:1")), (vec!["2.000 ms".to_owned()], vec!["2.667 ms".to_owned()]));
}

#[test]
fn waits_of_the_program_are_kept() {
    let folder = Folder::new();
    let two_tasks = |wait: fn(&Runtime, &TaskHandle)| {
        folder.simulate("4:CPU:1", |rt| {
            let (x, y, z) = (rt.zeros::<f64, _>(1), rt.zeros::<f64, _>(1), rt.zeros::<f64, _>(1));
            rt.task("step", (x.inout(),)).cpu(empty).submit().unwrap();
            let work = rt.task("work", (y.inout(),)).cpu(empty).submit_handle().unwrap();
            wait(rt, &work);
            rt.task("step", (z.inout(),)).cpu(empty).submit().unwrap();
            rt.wait().unwrap();
        });
        makespans(&folder.sim(&["--machine", "cores.toml"]).unwrap()).remove(0)
    };
    assert_eq!(two_tasks(|_, _| ()), "2.000 ms");
    assert_eq!(two_tasks(|_, work| work.wait().unwrap()), "3.000 ms");
    assert_eq!(two_tasks(|rt, _| rt.wait().unwrap()), "4.000 ms");
}

#[test]
fn dependences_alone_order_tasks_if_there_are_no_accesses() {
    let folder = Folder::new();
    let machine: SimulatedMachine = CORES.parse().unwrap();
    folder.record(Runtime::builder().compute_units("1:CPU:1").simulate(machine), wavefront);
    let text = folder.sim(&["--units", "6:CPU:1"]).unwrap();
    assert_eq!(makespans(&text), ["11.000 ms"]);
    assert!(text.contains("THALWEG_TRACE_ACCESSES=1") && text.contains("Copies are not modelled"), "{text}");
}

#[test]
fn modes_of_accesses_are_kept() {
    let folder = Folder::new();
    folder.simulate("1:CPU:1", |rt| {
        let (x, sum, list) = (rt.zeros::<f64, _>(4), rt.zeros::<f64, _>(1), rt.value(Vec::<u8>::new()));
        let token = rt.token();
        for _ in 0..3 {
            rt.task("work", sum.reduction(Sum)).cpu(|_, _| ()).submit().unwrap(); // at the same time
            rt.task("work", x.commutative()).cpu(|_, _| ()).submit().unwrap(); // one after the other
        }
        rt.task("step", (sum.input(), list.output(), token.output())).cpu(|_, _| ()).submit().unwrap();
        rt.task("step", (list.input(), x.after())).cpu(|_, _| ()).submit().unwrap();
        rt.task("step", token.inout()).cpu(|_, _| ()).submit().unwrap();
        rt.wait().unwrap();
    });
    let on = |units: &str| makespans(&folder.sim(&["--units", units]).unwrap());
    assert_eq!((on("4:CPU:1"), on("1:CPU:1")), (vec!["5.000 ms".to_owned()], vec!["12.000 ms".to_owned()]));
}

#[test]
fn results_of_tasks_order_their_readers() {
    let folder = Folder::new();
    folder.simulate("2:CPU:1", |rt| {
        let first = rt.task("work", ()).returns(|_, ()| 1).submit().unwrap();
        rt.task("work", first.after()).cpu(|_, _| ()).submit().unwrap();
        rt.wait().unwrap();
    });
    assert_eq!(makespans(&folder.sim(&["--units", "2:CPU:1"]).unwrap()), ["2.000 ms"]);
}

#[test]
fn real_run_with_children_is_replayed() {
    let folder = Folder::new();
    let rest = || std::thread::sleep(Duration::from_millis(20));
    folder.record(Runtime::builder().compute_units("1:CPU:1").trace_accesses(true), |rt| {
        let x = rt.data(vec![0.0; 3]).named("x");
        let inner = x.clone();
        let parent = rt.task("parent", (x.weak_inout(),)).cpu(move |cx, _| {
            for part in inner.blocks(1) {
                cx.task("C +=\t\"A\"*B,\n<script> 🦀 *", (part.inout(),)).cpu(move |_, _| rest()).submit()?;
            }
            Ok::<(), SubmitError>(())
        });
        parent.submit().unwrap();
        rt.task("last", (x.input(),)).cpu(move |_, _| rest()).submit().unwrap();
        rt.wait().unwrap();
    });
    let text = folder.sim(&["--units", "3:CPU:1", "--trace-out", "out.thw"]).unwrap();
    let trace = Trace::read(&folder.path("out.thw")).unwrap();
    let all: Vec<_> = trace.tasks.iter().enumerate().map(|(number, task)| (trace.name(number), task)).collect();
    let of = |start: &str| -> Vec<_> {
        all.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, task)| *task).collect()
    };
    let (parent, children, last) = (of("parent")[0], of("C +="), of("last")[0]);
    assert!(children.len() == 3 && children.iter().all(|child| child.start == parent.end), "{parent:?} {children:?}");
    assert!(children.iter().all(|child| child.end <= last.start), "{children:?} {last:?}");
    assert!(text.contains("3 tasks are children"), "{text}");
}

#[test]
fn simulated_runs_are_traced_on_request() {
    let folder = Folder::new();
    folder.simulate("1:CPU:1", fork_join);
    let text = folder.sim(&["--units", "3:CPU:1", "--scheduler", "eft,priority", "--trace-out", "out.thw"]).unwrap();
    assert!(text.contains("traces: out.thw, out-2.thw\n"), "{text}");
    for (name, scheduler) in [("out.thw", "eft"), ("out-2.thw", "priority")] {
        let trace = Trace::read(&folder.path(name)).unwrap();
        assert_eq!((trace.tasks.len(), trace.units.len(), &trace.facts["scheduler"][..]), (13, 3, scheduler));
        assert_eq!((trace.name(12), trace.tasks[12].end), ("step", Some(6_000_000)));
    }
}

#[test]
fn other_runs_are_compared_with_their_simulation() {
    let folder = Folder::new();
    folder.simulate("3:CPU:1", fork_join);
    std::fs::rename(folder.path("run.thw"), folder.path("three.thw")).unwrap();
    folder.simulate("1:CPU:1", fork_join);
    let text = folder.sim(&["--compare", "three.thw", "run.thw"]).unwrap();
    let ratios = "ratio 1.000, quartiles 1.000 to 1.000";
    for (units, makespan) in [("1:CPU:1", "14.000 ms"), ("3:CPU:1", "6.000 ms")] {
        let line = format!(
            "compare: {units} by stealing, simulated {makespan}, shortest of 1 runs {makespan}, ratio 1.000, work 1.000; median \
             {makespan}, {ratios}\n"
        );
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn errors_say_what_to_try() {
    let folder = Folder::new();
    folder.simulate("1:CPU:1", chain);
    folder.write("bad.toml", "name = 3");
    for (arguments, words) in [
        (&["--machine", "none.toml"][..], "cannot read the machine: none.toml: "),
        (&["--machine", "bad.toml"], "cannot read the machine: bad.toml, line 1, `name`: "),
        (&["--scheduler", "fastest"], "cannot find scheduler `fastest`; try one of stealing, "),
        (&["--units", "9:GPU:1", "--machine", "gpus.toml"], "requests 9 GPU devices"),
        (&["--scale", "GPU"], "there is no `=`"),
        (&["--scale", "GPU=0"], "try one such as GPU=20"),
        (&["--scale", "TPU=2"], "`TPU` is no kind of unit; try one of CPU, "),
        (&["--compare", "none.thw"], "cannot compare with none.thw: "),
        (&["--trace-out", "no/such/folder/out.thw"], "cannot create no/such/folder/out.thw: "),
    ] {
        let error = folder.sim(arguments).unwrap_err();
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
    folder.simulate("1:CPU:1", fork_join);
    let error = folder.sim(&["--machine", "gpus.toml", "--units", "1:GPU:1"]).unwrap_err();
    let words = "cannot simulate task `step` on `two GPUs`: it ran on CPU units only, and has no time on GPU units; try \
                 --scale GPU=FACTOR";
    assert!(error.contains(words), "{error}");
    let text = folder.sim(&["--machine", "gpus.toml"]).unwrap();
    assert!(text.contains("some tasks have no time on GPU units: `step`. Try --scale GPU=FACTOR."), "{text}");
    folder.simulate("1:CPU:1", |_| ());
    assert!(folder.sim(&[]).unwrap_err().contains("cannot simulate run.thw: it has no task that ran; try "));
    folder.write("run.thw", "no trace");
    assert!(folder.sim(&[]).unwrap_err().contains("cannot simulate run.thw: "));
}
