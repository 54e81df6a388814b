// `Pod` cannot be derived for a type with padding.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Padded {
    small: u8,
    large: u64,
}

fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let _x = rt.data(vec![Padded { small: 1, large: 2 }; 8]);
}
