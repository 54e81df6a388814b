//! Traces of ranks whose clocks differ, merged into one timeline.

use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg::Runtime;
use thalweg_mpi::{Network, Options};
use thalweg_trace_tools::analysis::{Analysis, Reason};
use thalweg_trace_tools::merge::{Clock, Rank, merge};
use thalweg_trace_tools::{Dependence, Trace};

/// The head start of a rank before the next one: more than any error of the clocks.
const AHEAD: Duration = Duration::from_millis(300);
/// Messages from each rank to each other.
const MESSAGES: usize = 20;

/// Runs a program in which two ranks send values to and fro. The rank `first` begins before the other one.
fn run(folder: &Path, first: usize) {
    std::thread::scope(|scope| {
        for (rank, end) in Network::new(2).endpoints().into_iter().enumerate() {
            scope.spawn(move || {
                std::thread::sleep(AHEAD * u32::from(rank != first));
                let builder = Runtime::builder().compute_units("1:CPU:1").pin_threads(false);
                let cluster = Options::new().trace(folder.join("run.thw")).over(end, builder).unwrap();
                let (x, y) = (cluster.data(0, vec![0.0]), cluster.data(1, vec![0.0]));
                for _ in 0..MESSAGES / 2 {
                    cluster.task("to", (x.input(), y.inout())).cpu(|_, (x, y)| y[0] += x[0]).submit().unwrap();
                    let fro = cluster.task("fro", (y.input(), x.inout()));
                    fro.local(|task| task.cpu(|_, (y, x)| x[0] += y[0]).submit()).unwrap();
                }
                let recorded = cluster.record(|r| {
                    r.task("to", (x.input(), y.inout())).cpu(|_, (x, y)| y[0] += x[0]).submit()?;
                    let fro = r.task("fro", (y.input(), x.inout()));
                    fro.local(|task| task.cpu(|_, (y, x)| x[0] += y[0]).submit())
                });
                let mut recorded = recorded.unwrap();
                (0..MESSAGES / 2).for_each(|_| recorded.replay().unwrap());
                drop(recorded);
                cluster.wait().unwrap();
            });
        }
    });
}

/// Returns for each message of the merged trace how many nanoseconds after the start of its send its receive ends.
fn travels(trace: &Trace) -> Vec<i64> {
    let between = |from: usize, to: usize| {
        let (send, receive) = (format!("send to {to}"), format!("receive from {from}"));
        let is_message = |edge: &&Dependence| trace.name(edge.from) == send && trace.name(edge.to) == receive;
        let messages: Vec<_> = trace.dependences.iter().filter(is_message).collect();
        assert_eq!(messages.len(), MESSAGES, "{send}");
        let tasks = messages.into_iter().map(|edge| (&trace.tasks[edge.from], &trace.tasks[edge.to]));
        tasks.map(|(send, receive)| receive.finished.unwrap() as i64 - send.start.unwrap() as i64).collect::<Vec<_>>()
    };
    [between(0, 1), between(1, 0)].concat()
}

/// All tasks of the program form a chain that alternates between the ranks.
#[test]
fn critical_path_and_causes_follow_messages() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), 0);
    let files: [PathBuf; 2] = ["run.0.thw", "run.1.thw"].map(|name| folder.path().join(name));
    let trace = merge(files.iter().map(|file| Rank::read(file, 9).unwrap()).collect());
    let analysis = Analysis::of(&trace);
    let names: Vec<&str> = analysis.critical.iter().map(|step| trace.name(step.task)).collect();
    let of_pair = ["send to 1", "receive from 0", "to", "send to 0", "receive from 1", "fro"];
    assert_eq!(names, of_pair.repeat(MESSAGES));
    let of_program = trace.sites.iter().filter(|site| site.name == "to" || site.name == "fro");
    assert!(of_program.into_iter().all(|site| site.file.ends_with("rank_traces.rs")), "{:#?}", trace.sites);
    // A receive that was ready before its message was sent has waited for it.
    let mut waited = 0;
    for pair in analysis.critical.windows(2).filter(|pair| trace.name(pair[1].task).starts_with("receive")) {
        let (send, receive) = (&trace.tasks[pair[0].task], &trace.tasks[pair[1].task]);
        if send.finished > receive.start {
            let ended_by = pair[1].reason;
            assert!(matches!(ended_by, Reason::Dependence { from, .. } if from == pair[0].task), "{ended_by:?}");
            waited += 1;
        }
    }
    assert!(waited > 0, "no receive has waited");
}

#[test]
fn messages_arrive_after_they_are_sent() {
    for first in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), first);
        let files: [PathBuf; 2] = ["run.0.thw", "run.1.thw"].map(|name| folder.path().join(name));
        let read = || files.iter().map(|file| Rank::read(file, 9).unwrap()).collect::<Vec<_>>();
        let error = read()[1].clock.error() as i64;
        assert_eq!(read().iter().map(|rank| rank.number).collect::<Vec<_>>(), [0, 1]);
        assert!(error > 0, "the clock of rank 1 has not been measured");
        for travel in travels(&merge(read())) {
            assert!(travel + error >= 0, "a message arrives {travel} ns after it is sent; the error is {error} ns");
        }
        let unaligned = read().into_iter().map(|rank| Rank { clock: Clock::default(), ..rank });
        let is_early = travels(&merge(unaligned.collect())).into_iter().any(|travel| travel + error < 0);
        assert!(is_early, "the clocks differ by {AHEAD:?}, and by at most {error} ns from what was measured");
    }
}
