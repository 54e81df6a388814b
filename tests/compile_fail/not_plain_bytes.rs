// Elements are plain bytes, which any memory can hold: no pointers, no padding, and every bit pattern is valid.
#[derive(Clone, Copy)]
#[repr(C)]
struct Padded {
    small: u8,
    large: u64,
}

fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let _x = rt.data(vec![String::new(); 8]);
    let _x = rt.data(vec![true; 8]);
    let _x = rt.data(vec![Padded { small: 1, large: 2 }; 8]);
}
