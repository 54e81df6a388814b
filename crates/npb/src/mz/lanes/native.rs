//! Processor instructions that `pulp` does not abstract. On other instruction sets, the functions return `None` and
//! the caller uses a fallback.

#[cfg(target_arch = "x86_64")]
use std::any::Any;
#[cfg(target_arch = "x86_64")]
use std::any::TypeId;

use pulp::Simd;
#[cfg(target_arch = "x86_64")]
use pulp::x86::{V3, V4};

use super::Lane;

/// Returns whether the instruction set is AVX-512.
#[inline(always)]
pub(crate) fn is_avx512<S: Simd>() -> bool {
    #[cfg(target_arch = "x86_64")]
    return TypeId::of::<S>() == TypeId::of::<V4>();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Returns the instruction set, if it is `Known`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn known<S: Simd, Known: Simd>(simd: S) -> Option<Known> {
    (&simd as &dyn Any).downcast_ref().copied()
}

/// Returns an estimate of 1 / `of` with a relative error below 2⁻¹⁴. The estimate is the same on all processors of
/// the same kind.
#[inline(always)]
pub(super) fn reciprocal<S: Simd>(of: Lane<S>) -> Option<Lane<S>> {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = known::<S, V4>(of.simd) {
        let guess = simd.avx512f._mm512_rcp14_pd(bytemuck::cast(of.value));
        return Some(Lane { value: bytemuck::cast(guess), ..of });
    }
    None
}

/// Returns an estimate of 1 / √`of`, with the same accuracy as the estimate of 1 / `of`.
#[inline(always)]
pub(super) fn reciprocal_root<S: Simd>(of: Lane<S>) -> Option<Lane<S>> {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = known::<S, V4>(of.simd) {
        let guess = simd.avx512f._mm512_rsqrt14_pd(bytemuck::cast(of.value));
        return Some(Lane { value: bytemuck::cast(guess), ..of });
    }
    None
}

/// See [`Lane::up`] and [`Lane::down`].
#[inline(always)]
pub(super) fn moved<S: Simd>(of: Lane<S>, is_up: bool) -> Option<Lane<S>> {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = known::<S, V3>(of.simd) {
        let (simd, value) = (simd.avx2, bytemuck::cast(of.value));
        let value = if is_up {
            simd._mm256_permute4x64_pd::<0b10_01_00_11>(value)
        } else {
            simd._mm256_permute4x64_pd::<0b00_11_10_01>(value)
        };
        return Some(Lane { value: bytemuck::cast(value), ..of });
    }
    let _ = (of, is_up);
    None
}

/// See [`Lane::joined`].
#[inline(always)]
pub(super) fn joined<S: Simd>(lanes: Lane<S>, count: usize, first: Lane<S>) -> Option<Lane<S>> {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = known::<S, V3>(lanes.simd) {
        let [own, other] = tabulate!(|n| bytemuck::cast([lanes.value, first.value][n]));
        let value = match count {
            0 => own,
            1 => simd.avx._mm256_blend_pd::<0b0001>(own, other),
            2 => simd.avx._mm256_blend_pd::<0b0011>(own, other),
            3 => simd.avx._mm256_blend_pd::<0b0111>(own, other),
            _ => other,
        };
        return Some(Lane { value: bytemuck::cast(value), ..lanes });
    }
    let _ = (lanes, count, first);
    None
}

/// See [`Lane::sides`].
#[inline(always)]
pub(super) fn sides<S: Simd>(neighbours: [Lane<S>; 3]) -> Option<[Lane<S>; 4]> {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = known::<S, V4>(neighbours[0].simd) {
        let [before, here, after] = tabulate!(|n| bytemuck::cast(neighbours[n].value));
        let simd = simd.avx512f;
        let sides = [
            simd._mm512_alignr_epi32::<12>(here, before),
            simd._mm512_alignr_epi32::<14>(here, before),
            simd._mm512_alignr_epi32::<2>(after, here),
            simd._mm512_alignr_epi32::<4>(after, here),
        ];
        return Some(tabulate!(|side| Lane { value: bytemuck::cast(sides[side]), ..neighbours[1] }));
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = known::<S, V3>(neighbours[0].simd) {
        let [before, here, after] = tabulate!(|n| bytemuck::cast(neighbours[n].value));
        let simd = simd.avx;
        let two_before = simd._mm256_permute2f128_pd::<0x21>(before, here);
        let two_after = simd._mm256_permute2f128_pd::<0x21>(here, after);
        let one_before = simd._mm256_shuffle_pd::<0b0101>(two_before, here);
        let one_after = simd._mm256_shuffle_pd::<0b0101>(here, two_after);
        let sides = [two_before, one_before, one_after, two_after];
        return Some(tabulate!(|side| Lane { value: bytemuck::cast(sides[side]), ..neighbours[1] }));
    }
    let _ = neighbours;
    None
}
