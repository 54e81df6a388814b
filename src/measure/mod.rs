//! Profiles by measurement: time and energy as functions of share size, from concurrent runs of all components.
//!
//! A component is the work that one unit does on its share, including copies in both directions. For each size, all
//! components run *at the same time*, because they slow each other down if they share memory or links. The runs are
//! repeated until each component's mean is known precisely enough (Farrelly et al. 2024, §VI). Energy is measured for
//! one component at a time, because a meter cannot attribute energy to components.
//! [`additive`](crate::sched::fpm::additive) tells whether the energies add up.
//!
//! Apart from the drivers, this is the only module that reads clocks. It knows nothing about tasks: a component may or
//! may not use a runtime.

mod build;
mod rule;

pub use build::{Component, MeasureError, MeasuredProfile, build_profiles, energy_profile};
pub use rule::{Point, Stop};
