//! Tests of ways to submit: groups, scopes, recordings, values and results, and the handles they return.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/random.rs"]
mod random;

mod dynamic_accesses;
mod groups;
mod handles;
mod public_types;
mod random_scopes;
mod recorded_hints;
mod repeat;
mod replay;
mod replay_bodies;
mod replay_failures;
mod results;
mod results_awaited;
mod scope_failures;
mod scopes;
mod scopes_in_bodies;
mod task_groups;
mod values;
