//! Tests of the order of tasks: accesses, regions and partitions, loops, children, and the lifetimes of tasks and
//! data.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/meter.rs"]
mod meter;

mod accesses;
mod accumulation;
mod breadth;
mod captured_values;
mod children;
mod deep_chains;
mod dimensions;
mod for_each;
mod lifecycle;
mod nesting;
mod numbers;
mod own_reducers;
mod partitions;
mod regions;
mod resources;
mod scale;
mod tiles;
mod window;
