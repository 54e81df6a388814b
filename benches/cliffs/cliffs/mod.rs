//! All cliffs, with one file per cause. Each cliff is a function that maps a size to a cost.

mod commutative;
mod devices;
mod grids;
mod groups;
mod memory;
mod moving;
mod placement;
mod reductions;
mod shares;
mod submission;
mod waiting;
mod wakes;

use crate::meter::Result;

/// A cost that must not grow with the size.
pub(crate) struct Cliff {
    /// Name of the cliff on the command line, in the table and in the JSON file.
    pub(crate) name: &'static str,
    /// The unit of the size, and the measured quantity.
    pub(crate) what: &'static str,
    /// Unit of the cost.
    pub(crate) unit: &'static str,
    /// The smaller of the two sizes.
    pub(crate) size: usize,
    /// Limit that the cost must stay within.
    pub(crate) bound: Bound,
    /// Returns the cost at a size.
    pub(crate) measure: fn(usize) -> Result<f64>,
}

/// Limit of a cost.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    /// Largest allowed growth of the cost from n to 8n, as a factor.
    Growth(f64),
    /// Largest allowed cost at 8n, regardless of the cost at n. For counted costs that should be close to zero.
    Most(f64),
}

/// Growth of a time that noise on a shared machine can explain.
const NOISE: Bound = Bound::Growth(2.0);

/// Returns a cliff whose cost is the time per task in nanoseconds.
const fn time(name: &'static str, size: usize, what: &'static str, measure: fn(usize) -> Result<f64>) -> Cliff {
    Cliff { name, what, unit: "ns", size, bound: NOISE, measure }
}

/// Returns a cliff whose cost is a count.
const fn count(
    name: &'static str,
    size: usize,
    unit: &'static str,
    most: f64,
    what: &'static str,
    measure: fn(usize) -> Result<f64>,
) -> Cliff {
    Cliff { name, what, unit, size, bound: Bound::Most(most), measure }
}

/// All cliffs, by cause.
pub(crate) const ALL: &[Cliff] = &[
    time("commutative-one", 1000, "n commutative tasks on one region: running one", commutative::one_region),
    time("commutative-each", 1000, "n commutative tasks on a region each: running one", commutative::regions),
    time("reduction-readers", 250, "n members of a reduction, n readers: submitting a reader", groups::reduction),
    time("concurrent-readers", 250, "n concurrent tasks, n readers: submitting a reader", groups::concurrent),
    time("readers-group", 250, "n readers, n members of a reduction: submitting a member", groups::readers_first),
    time("parts-readers", 1000, "n readers of 64 parts: submitting a reader", groups::readers_of_parts),
    time("parts-writer", 100, "n parts, n readers of all: one writer of all, for each reader", groups::writer_of_parts),
    time("one-element", 8192, "a 4-D array of n elements: one task on one element", grids::one_element),
    time("tiles-rows", 1250, "n tiles, row by row: submitting a task", grids::tiles_by_rows),
    time("tiles-columns", 1250, "n tiles, column by column: submitting a task", grids::tiles_by_columns),
    time("tiles-random", 1250, "n tiles in random order: submitting a task", grids::tiles_in_random_order),
    time(
        "tiles-halves",
        1250,
        "n tiles of an array initialised by halves: submitting a task",
        grids::tiles_after_halves,
    ),
    time("tiles-halos", 1250, "n tiles with the halo around each: submitting a task", grids::halos),
    time("tiles-group", 1250, "the same after a group: submitting a task", grids::halos_after_a_group),
    time("tiles-row", 1250, "the same while a writer of a row is pending: submitting a task", grids::halos_after_a_row),
    count(
        "join-combining",
        1 << 18,
        "us",
        500.0,
        "a reduction on n doubles: joining it while replicas are combined, the mean",
        reductions::join_while_combining,
    ),
    count(
        "reduction-tasks",
        50,
        "x by hand",
        3.0,
        "n tasks that reduce into 4 MiB: their time over that of a loop that adds n arrays",
        reductions::tasks_over_loop,
    ),
    count(
        "accumulate-tasks",
        50,
        "x by hand",
        1.5,
        "n tasks that accumulate into 4 MiB: their time over that of a loop that does the same",
        reductions::accumulating_over_loop,
    ),
    count(
        "reduction-kept",
        8,
        "KiB",
        8192.0,
        "n reductions into 1 MiB, all combined: memory kept",
        memory::kept_by_reductions,
    ),
    time("device-blocks", 500, "an array of n blocks on a device: running a task on one", devices::many_blocks),
    time("device-list", 500, "a task with n regions on a device: one of them", devices::long_list),
    time(
        "device-queue",
        1000,
        "n tasks for a device, an idle CPU unit: running one",
        devices::queue_beside_an_idle_unit,
    ),
    count(
        "evictions",
        1,
        "replicas",
        2.0,
        "n events while one replica's room is made: replicas evicted",
        devices::evictions_for_one,
    ),
    count(
        "wakes-release",
        4,
        "switches",
        8.0,
        "n units, idle: context switches for each data object dropped",
        wakes::by_release,
    ),
    count(
        "wakes-stealing",
        4,
        "switches",
        8.0,
        "n units, all but one idle: context switches for each task of a chain, `stealing`",
        wakes::by_chain_stealing,
    ),
    count(
        "wakes-dynamic",
        4,
        "switches",
        8.0,
        "n units, all but one idle: context switches for each task of a chain, `dynamic`",
        wakes::by_chain_dynamic,
    ),
    time("placement-units", 16, "n units: placing and ending a task, `dynamic` (simulated)", placement::units_dynamic),
    time("placement-stealing", 16, "the same under `stealing`", placement::units_stealing),
    time("placement-eft", 16, "the same under `eft`", placement::units_eft),
    count(
        "wait-chain",
        50,
        "tasks",
        2.0,
        "a pending chain of n tasks: how many run before a read of other data returns",
        waiting::behind_a_chain,
    ),
    time("submit-hosting", 25_000, "n pending tasks: submitting one from a hosting thread", submission::hosting),
    time("submit-foreign", 25_000, "n pending tasks: submitting one from a foreign thread", submission::foreign),
    count(
        "shares-time",
        1250,
        "ms",
        2000.0,
        "8 units, times of any shape at n points: the fastest shares",
        shares::fastest,
    ),
    count("shares-balance", 1250, "ms", 1.0, "8 units, times that rise, n points: balanced shares", shares::balanced),
    count(
        "window-gate",
        12_500,
        "ms",
        1000.0,
        "n tasks after a gate that the submitter opens later, under the window: submitting all",
        submission::behind_own_gate,
    ),
    count(
        "window-memory",
        2500,
        "KiB",
        8192.0,
        "n tasks with 4 KiB each under `.max_pending_tasks(64)`, foreign submitter: peak memory",
        memory::peak_under_a_window,
    ),
    count(
        "replays-memory",
        25,
        "KiB",
        65536.0,
        "n replays of 4096 tasks under `.max_pending_tasks(64)`, another thread submits on their data: peak memory",
        memory::peak_of_replays_among_others,
    ),
    count(
        "readers-memory",
        2500,
        "KiB",
        32.0,
        "n readers of a part that is then written: memory kept for each such part",
        memory::kept_by_readers,
    ),
    time("moving-reads", 40_000, "n reads of random slices: one of them", moving::reads_time),
    time("moving-writes", 5000, "n updates of blocks whose borders move: one of them", moving::writes_time),
    time("moving-boxes", 5000, "n updates of random boxes: one of them", moving::boxes_time),
    time("moving-parents", 5000, "n parents that hold random slices weakly: one of them", moving::parents_time),
    time(
        "moving-device-writes",
        5000,
        "n updates of blocks whose borders move, on a device: one of them",
        moving::device_writes_time,
    ),
    time("moving-device-boxes", 5000, "n updates of random boxes on a device: one of them", moving::device_boxes_time),
    count("moving-reads-memory", 5000, "KiB", 8192.0, "n reads of random slices: memory kept", moving::reads_memory),
    count("moving-boxes-memory", 5000, "KiB", 8192.0, "n updates of random boxes: memory kept", moving::boxes_memory),
    count(
        "moving-parents-memory",
        5000,
        "KiB",
        8192.0,
        "n parents that hold random slices weakly: memory kept",
        moving::parents_memory,
    ),
    count(
        "moving-device-boxes-memory",
        5000,
        "KiB",
        8192.0,
        "n updates of random boxes on a device: memory kept",
        moving::device_boxes_memory,
    ),
];
