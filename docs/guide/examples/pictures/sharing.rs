//! Profiles of a CPU and a GPU, and the resulting Pareto front of time and energy.

use crate::Result;
use crate::svg::Svg;
use thalweg::sched::fpm::{Profile, pareto};

/// The number of blocks to distribute.
const BLOCKS: u64 = 100;
/// Position and size of the two panels.
const PANELS: [[f64; 4]; 2] = [[60.0, 40.0, 300.0, 240.0], [440.0, 40.0, 300.0, 240.0]];

pub(crate) fn draw() -> Result<String> {
    // As in the chapter's simulated machine: 4 ms and 1 ms per block; 30 W and 150 W above idle power.
    let times = [Profile::new("CPU", [(BLOCKS, 0.4)])?, Profile::new("GPU", [(BLOCKS, 0.1)])?];
    let energies = [times[0].at_watts(30.0), times[1].at_watts(150.0)];
    let front = pareto(&times, &energies, BLOCKS, 5)?;
    let mut picture = Svg::new(780.0, 330.0);

    let place = |[x, y, width, height]: [f64; 4], at: [f64; 2]| [x + at[0] * width, y + height - at[1] * height];
    for (panel, [title, across, up]) in PANELS
        .iter()
        .zip([["what a share takes", "blocks", "seconds"], ["the front, with the GPU's blocks", "seconds", "joules"]])
    {
        let [x, y, width, height] = *panel;
        picture.rectangle([x, y + height, width, 1.5], "#222");
        picture.rectangle([x, y, 1.5, height], "#222");
        picture.text([x, y - 16.0], 14.0, "start", title);
        picture.text([x + width, y + height + 34.0], 12.0, "end", across);
        picture.text([x - 8.0, y - 2.0], 12.0, "end", up);
    }
    for (profile, colour) in times.iter().zip(["#4292c6", "#e6550d"]) {
        for size in (0..=BLOCKS).step_by(2) {
            let [x, y] = place(PANELS[0], [size as f64 / BLOCKS as f64, profile.at(size) / 0.42]);
            picture.rectangle([x - 2.0, y - 2.0, 4.0, 4.0], colour);
        }
        let [x, y] = place(PANELS[0], [1.0, profile.at(BLOCKS) / 0.42]);
        picture.text([x + 6.0, y + 4.0], 12.0, "start", profile.unit());
    }
    for blocks in [0, 50, 100] {
        let [x, y] = place(PANELS[0], [blocks as f64 / 100.0, 0.0]);
        picture.text([x, y + 18.0], 11.0, "middle", &blocks.to_string());
    }
    for seconds in [0.1, 0.2, 0.3, 0.4] {
        let [x, y] = place(PANELS[0], [0.0, seconds / 0.42]);
        picture.text([x - 6.0, y + 4.0], 11.0, "end", &format!("{seconds:.1}"));
        let [x, y] = place(PANELS[1], [seconds / 0.42, 0.0]);
        picture.text([x, y + 18.0], 11.0, "middle", &format!("{seconds:.1}"));
    }
    for joules in [12.0, 13.0, 14.0, 15.0] {
        let [x, y] = place(PANELS[1], [0.0, (joules - 11.5) / 4.0]);
        picture.text([x - 6.0, y + 4.0], 11.0, "end", &format!("{joules:.0}"));
    }
    for (n, shares) in front.iter().enumerate() {
        let joules = shares.energy.unwrap_or_default();
        let [x, y] = place(PANELS[1], [shares.time / 0.42, (joules - 11.5) / 4.0]);
        picture.rectangle([x - 3.0, y - 3.0, 6.0, 6.0], "#31a354");
        println!("sharing: {:?} takes {:.3} s and {joules:.2} J", shares.d, shares.time);
        if n % 4 == 0 {
            picture.text([x + 6.0, y - 6.0], 11.0, "start", &shares.d[1].to_string());
        }
    }
    Ok(picture.finish())
}
