//! Tests of the palette: readers with any common form of colour blindness can tell the hues of task names apart.
//!
//! Colour blindness is simulated using the matrices of Machado, Oliveira and Fernandes (2009) at full severity, in
//! linear light. Distances are measured in the Oklab colour space.

use crate::assets;

type Vector = [f64; 3];

const SIGHT: [(&str, [Vector; 3]); 4] = [
    ("full", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ("no red", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    ("no green", [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    ("no blue", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
];

fn linear(hex: &str) -> Vector {
    [1, 3, 5].map(|at| {
        let channel = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits")) / 255.0;
        if channel <= 0.04045 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
    })
}

fn apply(matrix: &[Vector; 3], vector: &Vector) -> Vector {
    matrix.map(|row| row.iter().zip(vector).map(|(left, right)| left * right).sum::<f64>())
}

fn oklab(linear: &Vector) -> Vector {
    let cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ];
    let lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ];
    apply(&lab, &apply(&cones, &linear.map(|channel| channel.max(0.0))).map(f64::cbrt))
}

/// Returns the hues of a scheme in `theme.js`.
fn hues(scheme: &str) -> Vec<String> {
    let assets = assets();
    let (_, theme) = assets.iter().find(|(name, _)| name == "theme.js").expect("the theme is an asset");
    let list = theme.split_once("const HUES").and_then(|(_, rest)| rest.split_once(&format!("{scheme}: [")));
    let (list, _) = list.and_then(|(_, rest)| rest.split_once(']')).expect("the hues are listed");
    list.split(',').map(|hue| hue.trim().trim_matches('\'').to_owned()).collect()
}

#[test]
fn hues_stay_apart_for_colour_blind_readers() {
    for scheme in ["light", "dark"] {
        let hues = hues(scheme);
        assert_eq!(hues.len(), 8);
        for (sight, matrix) in &SIGHT {
            let seen: Vec<Vector> = hues.iter().map(|hue| oklab(&apply(matrix, &linear(hue)))).collect();
            for (one, left) in seen.iter().enumerate() {
                for (other, right) in seen.iter().enumerate().skip(one + 1) {
                    let distance = left.iter().zip(right).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    // The limit is five times the just noticeable difference of colours side by side.
                    assert!(distance > 0.095, "{scheme}, {sight}: {} and {}: {distance}", hues[one], hues[other]);
                }
            }
        }
    }
}
