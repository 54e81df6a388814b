//! Replays of recordings, which become graphs of the interface.

use super::drivers::Settings;
use super::{graphs, on_both, report};

/// Checks that a program launches graphs, if the stand-in is available.
fn launches_graphs(settings: &Settings, program: &str) {
    if let Some(report) = report(settings, program) {
        assert!(report.of("graph launches") > 0, "{program} {report:?}");
    }
}

/// Checks that replays are launched as graphs, except for the first one, for which a graph would not pay off.
#[test]
fn replays_are_launched_as_graphs() {
    on_both(|settings| {
        let Some(report) = report(settings, "graphs::steady_replays_become_graphs") else { return };
        let (tasks, replays) = (graphs::CHAINS * (graphs::LENGTH + 1), graphs::REPLAYS);
        let others = report.calls() - report.launches();
        println!(
            "{}: {} launches, {others} other calls for {} tasks",
            settings.units,
            report.launches(),
            tasks * replays
        );
        assert_eq!(report.of("graph launches"), (replays - 1) as i64, "{report:?}");
        assert_eq!(report.of("kernels in graphs"), (tasks * (replays - 1)) as i64);
        // The count includes the calls before the first graph and at the end.
        assert!(report.calls() - 2 * tasks as i64 <= (tasks * replays / 10) as i64, "{report:?}");
    });
}

#[test]
fn replays_with_new_parameters_update_graphs() {
    on_both(|settings| {
        let Some(report) = report(settings, "graphs::changing_arguments_update_graphs") else { return };
        let changes = report.of("cuGraphExecKernelNodeSetParams_v2") + report.of("hipGraphExecKernelNodeSetParams");
        assert!(changes > 0 && report.of("graph launches") > 0, "{report:?}");
    });
}

#[test]
fn replays_on_two_devices_use_graphs() {
    on_both(|settings| {
        let Some(report) =
            report(&settings.clone().with("STANDIN_DEVICES", 2), "graphs::chains_on_two_devices_become_graphs")
        else {
            return;
        };
        assert!(report.of("graph launches") > 0, "{report:?}");
        for program in
            ["graphs::tasks_for_one_device_become_graphs_there", "graphs::spread_loops_become_one_graph_per_device"]
        {
            let report =
                self::report(&settings.clone().with("STANDIN_DEVICES", 2), program).expect("the stand-in is available");
            assert!(report.of("graph launches") > 0, "{program} {report:?}");
        }
    });
}

#[test]
fn replays_with_scratch_memory_use_graphs() {
    on_both(|settings| launches_graphs(settings, "graphs::graphs_may_use_scratch_memory"));
}

#[test]
fn replays_of_indexed_tasks_use_graphs() {
    on_both(|settings| {
        let settings = settings.clone().with("STANDIN_DEVICES", 2);
        launches_graphs(&settings, "graphs::graphs_of_indexed_loops_keep_results");
    });
}

#[test]
fn replays_use_graphs_when_replicas_are_evicted_in_between() {
    on_both(|settings| launches_graphs(settings, "graphs::eviction_between_replays_keeps_results"));
}

/// Graphs with failing tasks, and with room for only part of the data at a time.
#[test]
fn random_replays_on_devices_match_sequential_execution() {
    on_both(|settings| {
        for memory in [1 << 20, 4500] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_MEMORY", memory);
            launches_graphs(&settings, "graphs::random_replays::random_replays_match_direct_execution");
        }
    });
}
