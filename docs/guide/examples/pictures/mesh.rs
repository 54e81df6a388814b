//! A mesh of zones with neighbours to the west, east, south and north.

/// The number of zones in each of the two dimensions.
pub(crate) const SIDE: usize = 16;

/// Returns the widths of zones along one dimension: equal, or growing by a constant factor so that the last is 4.5
/// times the first, as in BT-MZ (NAS-03-010).
pub(crate) fn widths(equal: bool) -> Vec<f64> {
    let ratio = if equal { 1.0 } else { 4.5f64.powf(1.0 / (SIDE - 1) as f64) };
    let widths: Vec<f64> = (0..SIDE).map(|i| ratio.powi(i as i32)).collect();
    let mean = widths.iter().sum::<f64>() / SIDE as f64;
    widths.into_iter().map(|width| width / mean).collect()
}

/// Returns the area of every zone; the mean is 1.
pub(crate) fn areas(equal: bool) -> Vec<f64> {
    let widths = widths(equal);
    (0..SIDE * SIDE).map(|zone| widths[zone % SIDE] * widths[zone / SIDE]).collect()
}

/// Returns the neighbours of each zone; zones at the edges have fewer.
pub(crate) fn neighbours() -> Vec<Vec<usize>> {
    let beside = |zone: usize| {
        let (x, y) = (zone % SIDE, zone / SIDE);
        let west = (x > 0).then(|| zone - 1);
        let east = (x + 1 < SIDE).then(|| zone + 1);
        let south = (y > 0).then(|| zone - SIDE);
        let north = (y + 1 < SIDE).then(|| zone + SIDE);
        [west, east, south, north].into_iter().flatten().collect()
    };
    (0..SIDE * SIDE).map(beside).collect()
}
