//! Problem classes. All programs use the same letters.

use clap::ValueEnum;

/// A problem class, which exists for every program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    /// Smallest class, to check that everything works.
    #[value(name = "S", alias = "s")]
    S,
    #[value(name = "W", alias = "w")]
    W,
    #[value(name = "A", alias = "a")]
    A,
    #[value(name = "B", alias = "b")]
    B,
    #[value(name = "C", alias = "c")]
    C,
}

impl Class {
    pub(crate) fn letter(self) -> char {
        match self {
            Self::S => 'S',
            Self::W => 'W',
            Self::A => 'A',
            Self::B => 'B',
            Self::C => 'C',
        }
    }

    /// Returns the corresponding class of BT, SP and LU.
    pub(crate) fn mz(self) -> npb::mz::Class {
        match self {
            Self::S => npb::mz::Class::S,
            Self::W => npb::mz::Class::W,
            Self::A => npb::mz::Class::A,
            Self::B => npb::mz::Class::B,
            Self::C => npb::mz::Class::C,
        }
    }

    /// Returns the corresponding class of CG.
    pub(crate) fn cg(self) -> npb_cg::Class {
        match self {
            Self::S => npb_cg::Class::S,
            Self::W => npb_cg::Class::W,
            Self::A => npb_cg::Class::A,
            Self::B => npb_cg::Class::B,
            Self::C => npb_cg::Class::C,
        }
    }

    /// Returns the number of unknowns along each side of Jacobi's square. Arrays are then about as large as those of
    /// the other programs in the same class.
    pub(crate) fn jacobi(self) -> usize {
        match self {
            Self::S => 128,
            Self::W => 512,
            Self::A => 1024,
            Self::B => 2048,
            Self::C => 4096,
        }
    }
}
