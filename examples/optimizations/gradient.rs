//! The gradient kernel of a discontinuous Galerkin method (kernels/dg.cl): by annotation, with each optimization
//! switched off, and by hand. The bench `loops` has two of these variants.

use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::loops::target;

/// Points along a side of an element, and in an element.
pub(crate) const NX: usize = 4;
pub(crate) const POINTS: usize = NX * NX;

macro_rules! advance {
    ($($name:ident $options:tt)*) => {$(
        #[target $options]
        pub(crate) fn $name(der: &[f64], delta: &[f64], weights: &[f64], dt: f64, x: &mut [f64], y: &mut [f64]) {
            #[distribute]
            for element in 0..x.len() / POINTS {
                let mut gradient = [0.0; POINTS];
                #[parallel_for]
                for l in 0..NX {
                    #[parallel_for]
                    for k in 0..NX {
                        let mut outer = 0.0;
                        for j in 0..NX {
                            let mut inner = 0.0;
                            for i in 0..NX {
                                let at = element * POINTS + j * NX + i;
                                let along = delta[j * NX + l] * x[at] * der[k * NX + i];
                                let across = delta[k * NX + i] * y[at] * der[l * NX + j];
                                inner += (along + across) * weights[i];
                            }
                            outer += inner * weights[j];
                        }
                        gradient[l * NX + k] = outer;
                    }
                }
                #[parallel_for]
                for l in 0..NX {
                    #[parallel_for]
                    for k in 0..NX {
                        x[element * POINTS + l * NX + k] += dt * gradient[l * NX + k];
                        y[element * POINTS + l * NX + k] += dt * gradient[l * NX + k];
                    }
                }
            }
        }
    )*};
}

advance! {
    advance(teams(thread_limit = 64, firstprivate(der: POINTS, delta: POINTS, weights: NX)))
    without_team_memory(teams(thread_limit = 64, firstprivate(der: POINTS, delta: POINTS, weights: NX)), off(team_memory))
    without_once(teams(thread_limit = 64, firstprivate(der: POINTS, delta: POINTS, weights: NX)), off(once))
    without_innermost_first(
        teams(thread_limit = 64, firstprivate(der: POINTS, delta: POINTS, weights: NX)), off(innermost_first)
    )
    without_all(
        teams(thread_limit = 64, firstprivate(der: POINTS, delta: POINTS, weights: NX)),
        off(team_memory, once, innermost_first)
    )
}

#[allow(unsafe_code)]
// SAFETY: a group touches only the points of its elements, and checks these against the number of elements.
const DG: Program = unsafe { Program::new("dg.cl", include_str!("../../kernels/dg.cl")) };
pub(crate) type ByHand = (Read<f64>, Read<f64>, Read<f64>, f64, Write<f64>, Write<f64>, i32);
pub(crate) static BY_HAND: Kernel<ByHand> = Kernel::new(&DG, "advance_by_hand");
