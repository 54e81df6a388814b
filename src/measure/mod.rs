//! Profiles by measurement: what shares of each size take and use, from runs of all components at once.
//!
//! A component is what one unit does with a share, copies both ways included. For each size all components run *at the same
//! time*, since they slow each other down where they share memory or links, and again until the mean of each is known well
//! enough (Farrelly et al. 2024, §VI). Energies are measured component by component: a meter cannot tell who used what.
//! Whether they add up, [`additive`](crate::sched::fpm::additive) says.
//!
//! The one place beside the drivers that reads clocks. It knows nothing of tasks: a component may use a runtime, or none.

mod build;
mod rule;

pub use build::{Component, MeasureError, MeasuredProfile, build_profiles, energy_profile};
pub use rule::{Point, Stop};
