//! Errors returned by CUDA and HIP calls.

/// A failed call, with its error code. HIP uses the same codes as CUDA, as far as they matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::device) struct ApiError {
    pub(in crate::device) call: &'static str,
    pub(in crate::device) code: i32,
}

pub(super) const INVALID_VALUE: i32 = 1;
pub(super) const OUT_OF_MEMORY: i32 = 2;
/// There is no device. It depends on the interface's version which of these two codes is returned.
pub(super) const NO_DEVICE: i32 = 100;
pub(super) const INVALID_DEVICE: i32 = 101;
pub(super) const INVALID_CONTEXT: i32 = 201;
pub(super) const INVALID_HANDLE: i32 = 400;
pub(super) const NOT_READY: i32 = 600;
pub(super) const ALREADY_REGISTERED: i32 = 712;
pub(super) const PEER_ACCESS_ALREADY_ENABLED: i32 = 704;

impl ApiError {
    /// Returns `Ok` for code 0, and otherwise the error.
    pub(in crate::device) fn unless_success(call: &'static str, code: i32) -> Result<(), Self> {
        if code == 0 { Ok(()) } else { Err(Self { call, code }) }
    }

    /// Returns whether the device refused code that would be acceptable from another compiler or with other options:
    /// an invalid image, no code for the device, or PTX that is invalid or newer than the driver.
    pub(super) fn refuses_code(self) -> bool {
        matches!(self.code, 200 | 209 | 218 | 222)
    }

    /// Returns whether the error makes everything on the device unusable. In the order of the codes, the causes are:
    /// deinitialized, device unavailable, ECC, NVLink, contained; illegal address, launch timeout, context destroyed,
    /// assertion, stack, illegal instruction, misaligned address, address space, program counter, launch failure,
    /// tensor memory; failures of the server that shares a device between processes (MPS), and termination by it;
    /// unknown; HSA memory errors and other HSA errors.
    pub(super) fn is_loss(self) -> bool {
        matches!(
            self.code,
            4 | 46 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 806 | 810 | 999 | 1052 | 1053
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_make_the_device_unusable_are_losses() {
        let is_loss = |code| ApiError { call: "any", code }.is_loss();
        // Codes in the headers of CUDA 13: launch failure, tensor memory leak, MPS server, MPS client.
        assert!([719, 721, 806, 810].into_iter().all(is_loss));
        // Refusals: value, memory, too many cooperative groups, not permitted, not supported, too many MPS clients.
        assert!(![1, 2, 720, 800, 801, 808].into_iter().any(is_loss));
    }
}
