//! Element types of data objects and reductions: every integer, and complex numbers.

use crate::common::runtime;
use thalweg::memory::{AnyOrder, Complex, Elementwise};
use thalweg::prelude::*;

macro_rules! integers {
    ($($t:ident)*) => {$(
        #[test]
        fn $t() {
            let rt = runtime("2:CPU:1");
            let (sum, least, most) = (rt.scalar::<$t>(1), rt.scalar::<$t>(50), rt.scalar::<$t>(50));
            for i in 0..10 {
                rt.task("reduce", (sum.reduction(Sum), least.reduction(Min), most.reduction(Max)))
                    .cpu(move |_, (sum, least, most)| {
                        (sum[0], least[0], most[0]) = (i, 45 + i, 45 + i);
                    })
                    .submit()
                    .unwrap();
            }
            let wrapped = rt.scalar(<$t>::MAX);
            rt.task("wraps", (wrapped.reduction(Sum),)).cpu(|_, (x,)| x[0] += 3).submit().unwrap();
            rt.wait().unwrap();
            let value = |x: &Data<$t>| rt.read(x).unwrap()[0];
            assert_eq!((value(&sum), value(&least), value(&most)), (46, 45, 54));
            assert_eq!(value(&wrapped), <$t>::MIN + 2);
        }
    )*};
}

mod integers {
    use super::*;
    integers! { u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize }
}

#[test]
fn complex_numbers_are_reduced_by_sum() {
    let rt = runtime("2:CPU:1,1:EMU:1");
    let x = rt.data(vec![Complex { re: 0.0, im: 1.0 }; 3]);
    let pair = rt.scalar([Complex { re: 0.0f32, im: 0.0 }; 2]);
    for i in 0..8 {
        let z = Complex { re: f64::from(i), im: -1.0 };
        rt.task("add", (x.slice(1..).reduction(Sum), pair.reduction(AnyOrder(Elementwise(Sum)))))
            .cpu(move |_, (x, pair)| {
                x.fill(z);
                pair[0][1].re += 1.0;
            })
            .submit()
            .unwrap();
    }
    assert_eq!(rt.read(&x).unwrap(), [(0.0, 1.0), (28.0, -7.0), (28.0, -7.0)].map(|(re, im)| Complex { re, im }));
    assert_eq!(rt.read(&pair).unwrap()[0][1], Complex { re: 8.0, im: 0.0 });
}
