//! The guide's chapters as documentation, so that `cargo test` compiles and runs each block of Rust in them.
//!
//! Nothing here is for programs to use. `tests/guide.rs` sees to it that no chapter is missing from the list below.

/// Makes a chapter's code blocks doc tests.
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
    costs,
    simulation,
}
