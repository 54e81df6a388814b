//! The guide's chapters and the README as rustdoc, so that `cargo test` compiles and runs each of their Rust blocks.
//!
//! Programs do not use this crate. `tests/guide.rs` checks that the list below contains every chapter.

/// Turns each chapter's code blocks into doc tests.
macro_rules! chapters {
    ($($name:ident),* $(,)?) => {
        $(
            #[doc = include_str!(concat!("src/", stringify!($name), ".md"))]
            pub mod $name {}
        )*
    };
}

chapters! {
    introduction,
    first_task,
    regions,
    loops,
    recordings,
    nesting,
    values,
    scopes,
    outside,
    failure,
    capacity,
    debugging,
    schedules,
    embedding,
    units,
    schedulers,
    sharing,
    accelerators,
    own_kernels,
    memory_elsewhere,
    annotated,
    porting_openmp,
    porting_ompss,
    porting_starpu,
    c,
    cpp,
    fortran,
    python,
    slow_programs,
    costs,
    simulation,
    machines,
}

#[doc = include_str!("../../README.md")]
pub mod readme {}
