//! Scheduling: which unit gets which ready task.
//!
//! A [`Policy`] is a deterministic function of its state and a read-only [`View`]. It uses no clock, environment,
//! lock, I/O or randomness; ties are broken by id. The engine notifies it of ready tasks, asks it for a task when a
//! unit has room, and acts on the answers. One policy per file.
//!
//! *Work distributions* (González Tallada 2024 (slides); González Tallada & Morancho 2024, §4) share out the indices
//! of an iteration space. Each is a [`Distribution`], a function from weights and times to an [`Assignment`];
//! [`Distributed`] turns any of them into a policy: a recurring task carries its [`Position`] and goes to the queue of
//! the unit that its index is assigned to.
//!
//! *Online policies* decide task by task: [`Stealing`], [`Eft`], [`BottomLevel`], [`Priority`], [`Dynamic`].
//!
//! [`Auto`] passes each task to one of two of them.
//!
//! [`NAMES`] and `spec.rs` define the names by which users select a policy.

mod adjacency;
mod affinity;
mod alike;
mod any_distribution;
mod assignment;
mod auto;
mod balance;
mod bottom_level;
mod certified;
mod check;
mod clustered;
mod copies;
mod distribution;
mod dynamic;
mod eft;
pub mod fpm;
mod guided;
mod idle;
mod kernels;
mod model;
#[cfg(feature = "sim")]
mod model_text;
mod paces;
mod pcf;
mod pcf_guided;
mod pcf_static;
mod policy;
mod priority;
#[cfg(test)]
mod properties;
mod queues;
mod spec;
mod static_chunks;
mod static_pcf;
mod stealing;
mod task_view;
mod team_size;
mod unit_set;
mod unit_view;

pub use affinity::AffinityStatistics;
pub(crate) use assignment::Chunks;
pub use assignment::{Assignment, Distribution, Neighbour, Team, Times, Workload};
pub use certified::LowerBound;
pub use check::{Violation, check};
pub use copies::CopySample;
pub use distribution::Distributed;
pub use model::Model;
#[cfg(feature = "sim")]
pub use model_text::ModelError;
pub use pcf::Pcf;
pub use policy::{Estimate, Policy};
pub use spec::NAMES;
pub(crate) use spec::{Setting, from_spec};
pub use static_chunks::Static;
pub use static_pcf::StaticPcf;
pub use task_view::{Near, Position, ReadyTask, RegionUse, Sample, SubmittedTask};
pub use unit_set::UnitSet;
pub use unit_view::{UnitView, View};
// Programs select the other policies by name. As types they serve benches, pictures and tests, and may change.
#[doc(hidden)]
pub use self::{
    adjacency::Adjacency,
    affinity::Affinity,
    auto::Auto,
    balance::balanced_chunks,
    bottom_level::BottomLevel,
    certified::Certified,
    clustered::{ClusteredGuided, ClusteredGuidedLiteral, State},
    copies::LinkEstimate,
    dynamic::Dynamic,
    eft::Eft,
    guided::{GuidedRuntime, GuidedSizes, guided_step},
    pcf::profiled as profiled_pcf,
    pcf_guided::PcfGuided,
    pcf_static::{PcfStatic, cpu_tasks as pcf_static_cpu_tasks},
    policy::Decision,
    priority::Priority,
    static_chunks::static_chunks,
    static_pcf::device_tasks as static_pcf_device_tasks,
    stealing::Stealing,
    team_size::{TeamSize, TeamSized},
};
