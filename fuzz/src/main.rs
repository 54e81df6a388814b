//! The targets of `tests/fuzz`, and those that need private code or whole programs, under libFuzzer.
//!
//! The variable `THALWEG_FUZZ` selects the target. With `THALWEG_FUZZ_SEEDS=FOLDER`, the program only writes the
//! target's valid inputs to this folder. `scripts/fuzz` sets both.

#![no_main]
#![allow(dead_code, unreachable_pub)] // tests' modules, of which this program uses a part

#[path = "../../tests/whole_programs/access.rs"]
mod access;
#[path = "../../tests/whole_programs/draw.rs"]
mod draw;
#[path = "../../tests/whole_programs/log.rs"]
mod log;
#[path = "../../tests/whole_programs/loops.rs"]
mod loops;
mod maps;
#[path = "../../tests/whole_programs/oracle.rs"]
mod oracle;
#[path = "../../tests/whole_programs/program.rs"]
mod program;
mod random;
#[allow(unused_imports)] // the library uses more of it
#[path = "../../src/region/mod.rs"]
mod region;
#[path = "../../tests/whole_programs/run.rs"]
mod run;
#[path = "../../tests/common/steps.rs"]
mod steps;
#[path = "../../tests/whole_programs/submit.rs"]
mod submit;
#[path = "../../tests/fuzz/targets/mod.rs"]
mod targets;

use std::sync::LazyLock;
use targets::Target;

/// A whole program whose choices are the bytes, compared with the sequential oracle.
fn programs(bytes: &[u8]) {
    let program = program::Program::draw(random::Random::new(bytes));
    if let Err(difference) = oracle::Oracle::judge(&program, &run::run(&program)) {
        panic!("{difference}\n{program:#?}");
    }
}

fn some_bytes() -> Vec<Vec<u8>> {
    (0..8u32).map(|n| (0..256u32).map(|i| ((n * 256 + i).wrapping_mul(2_654_435_761) >> 13) as u8).collect()).collect()
}

const OTHERS: [Target; 2] = [
    Target { name: "maps", is_text: false, valid: some_bytes, run: maps::run },
    Target { name: "programs", is_text: false, valid: some_bytes, run: programs },
];

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("THALWEG_FUZZ").unwrap_or_default();
    let mut all = targets::ALL.iter().chain(&OTHERS);
    all.find(|target| target.name == name).unwrap_or_else(|| panic!("cannot fuzz `{name}`: there is no such target"))
});

fn write_seeds() {
    let Some(folder) = std::env::var_os("THALWEG_FUZZ_SEEDS") else { return };
    for (n, bytes) in (TARGET.valid)().iter().enumerate() {
        let path = std::path::Path::new(&folder).join(format!("valid-{n}"));
        std::fs::write(path, bytes).expect("the folder is writable");
    }
    std::process::exit(0);
}

libfuzzer_sys::fuzz_target!(init: write_seeds(), |bytes: &[u8]| (TARGET.run)(bytes));
