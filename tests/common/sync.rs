// The files of `src/sync/` that both loom and shuttle check. `tests/loom` and `tests/shuttle` include this list, each
// with its own primitives in a module `atomic`, and its own `pool`.

#[path = "../../src/sync/batch.rs"]
mod batch;
#[path = "../../src/sync/edges.rs"]
mod edges;
#[path = "../../src/sync/expect.rs"]
mod expect;
#[path = "../../src/sync/fixed.rs"]
mod fixed;
#[path = "../../src/sync/owned.rs"]
mod owned;
#[path = "../../src/sync/prefetch.rs"]
mod prefetch;
#[path = "../../src/sync/ref_count.rs"]
mod ref_count;
#[path = "../../src/sync/rounds.rs"]
mod rounds;
#[path = "../../src/sync/sleep.rs"]
mod sleep;
#[path = "../../src/sync/submitting.rs"]
mod submitting;
#[path = "../../src/sync/successors.rs"]
mod successors;
#[path = "../../src/sync/tail.rs"]
mod tail;
#[path = "../../src/sync/task.rs"]
mod task;
