//! Profiles by measurement: the time and energy of shares of each size, from runs of all components at once.
//!
//! A component is the work of one unit on a share, including copies both ways. For each size all components run *at the
//! same time*, since they slow each other down if they share memory or links, and are repeated until the mean of each
//! is known well enough (Farrelly et al. 2024, §VI). Energies are measured component by component, because a meter
//! cannot attribute energy to components. [`additive`](crate::sched::fpm::additive) tells whether they add up.
//!
//! Apart from the drivers, this is the only module that reads clocks. It does not know about tasks: a component may use
//! a runtime, or none.

mod build;
mod rule;

pub use build::{Component, MeasureError, MeasuredProfile, build_profiles, energy_profile};
pub use rule::{Point, Stop};
