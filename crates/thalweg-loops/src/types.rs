//! Inference of numeric types, with the same results as in rustc: by unification, with Rust's defaults for literals.
//!
//! Types have to be inferred because the kernel text names the type of every variable. rustc also compiles the
//! function and reports type errors, so the inference here only has to be correct for programs that rustc accepts.

use syn::Ident;

/// A numeric type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scalar {
    F64,
    F32,
    I32,
    U32,
    I64,
    U64,
    Isize,
    Usize,
    Bool,
}

impl Scalar {
    const NAMES: [(&'static str, Self, &'static str); 9] = [
        ("f64", Self::F64, "double"),
        ("f32", Self::F32, "float"),
        ("i32", Self::I32, "int"),
        ("u32", Self::U32, "unsigned"),
        ("i64", Self::I64, "INT64"),
        ("u64", Self::U64, "UINT64"),
        ("isize", Self::Isize, "INT64"),
        ("usize", Self::Usize, "UINT64"),
        ("bool", Self::Bool, "int"),
    ];

    pub(crate) fn of_name(name: &Ident) -> Option<Self> {
        Self::NAMES.iter().find(|(rust, ..)| name == rust).map(|(_, scalar, _)| *scalar)
    }

    pub(crate) fn rust(self) -> &'static str {
        Self::NAMES.iter().find(|(_, scalar, _)| *scalar == self).map_or("f64", |(rust, ..)| rust)
    }

    /// Returns the type's name in the kernel dialect.
    pub(crate) fn text(self) -> &'static str {
        Self::NAMES.iter().find(|(_, scalar, _)| *scalar == self).map_or("double", |(.., text)| text)
    }

    /// Returns the host type of a kernel parameter of this type.
    pub(crate) fn parameter(self) -> &'static str {
        match self {
            Self::Bool => "i32",
            Self::Isize => "i64",
            Self::Usize => "u64",
            other => other.rust(),
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32)
    }

    pub(crate) fn is_integer(self) -> bool {
        !self.is_float() && self != Self::Bool
    }

    pub(crate) fn bits(self) -> u32 {
        if matches!(self, Self::F32 | Self::I32 | Self::U32 | Self::Bool) { 32 } else { 64 }
    }

    /// Returns whether data objects that kernels access can have elements of this type.
    pub(crate) fn is_element(self) -> bool {
        !matches!(self, Self::Bool | Self::Isize | Self::Usize)
    }
}

/// The ID of a type that may not be known yet.
pub(crate) type TypeId = usize;

#[derive(Debug, Clone, Copy)]
enum Node {
    Known(Scalar),
    /// The type of a literal without a suffix.
    Integer,
    Float,
    Any,
    Same(TypeId),
}

/// The types of one function.
#[derive(Debug, Default)]
pub(crate) struct Types(Vec<Node>);

impl Types {
    fn push(&mut self, node: Node) -> TypeId {
        self.0.push(node);
        self.0.len() - 1
    }

    pub(crate) fn known(&mut self, scalar: Scalar) -> TypeId {
        self.push(Node::Known(scalar))
    }

    pub(crate) fn integer(&mut self) -> TypeId {
        self.push(Node::Integer)
    }

    pub(crate) fn float(&mut self) -> TypeId {
        self.push(Node::Float)
    }

    pub(crate) fn any(&mut self) -> TypeId {
        self.push(Node::Any)
    }

    fn root(&self, mut id: TypeId) -> TypeId {
        while let Node::Same(other) = self.0[id] {
            id = other;
        }
        id
    }

    /// Makes both types equal. If they cannot be equal, rustc reports the error.
    pub(crate) fn unify(&mut self, a: TypeId, b: TypeId) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return;
        }
        let is_better = match (self.0[a], self.0[b]) {
            (Node::Known(_), _) | (_, Node::Any) => true,
            (_, Node::Known(_)) | (Node::Any, _) => false,
            _ => true,
        };
        if is_better { self.0[b] = Node::Same(a) } else { self.0[a] = Node::Same(b) }
    }

    pub(crate) fn of(&self, id: TypeId) -> Scalar {
        match self.0[self.root(id)] {
            Node::Known(scalar) => scalar,
            Node::Integer => Scalar::I32,
            Node::Float | Node::Any | Node::Same(_) => Scalar::F64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_get_the_type_they_are_unified_with() {
        let mut types = Types::default();
        let (literal, sum, x) = (types.float(), types.any(), types.known(Scalar::F32));
        types.unify(literal, sum);
        assert_eq!(types.of(sum), Scalar::F64);
        types.unify(sum, x);
        assert_eq!((types.of(literal), types.of(sum)), (Scalar::F32, Scalar::F32));
        let one = types.integer();
        assert_eq!(types.of(one), Scalar::I32);
        let index = types.known(Scalar::Usize);
        types.unify(one, index);
        assert_eq!(types.of(one).text(), "UINT64");
    }
}
