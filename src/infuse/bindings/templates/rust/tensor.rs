//! Arrays of elements, and numbers of 16 bits.

mod sealed {
    pub trait Sealed {}
}

/// What elements of tensors may be.
pub trait Element: Copy + Default + sealed::Sealed + 'static {}

macro_rules! elements {
    ($($kind:ty),*) => { $(impl sealed::Sealed for $kind {} impl Element for $kind {})* };
}
elements!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, Float16, BFloat16);

/// Elements in row-major order, with a shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensor<T> {
    data: Vec<T>,
    shape: Vec<usize>,
}

impl<T: Element> Tensor<T> {
    /// A tensor of these elements; a wrong number of them is an error of the run.
    pub fn new(data: Vec<T>, shape: &[usize]) -> Self {
        Tensor { data, shape: shape.to_vec() }
    }

    /// A tensor of zeros.
    pub fn zeros(shape: &[usize]) -> Self {
        Tensor { data: vec![T::default(); shape.iter().product()], shape: shape.to_vec() }
    }

    /// The elements.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// The elements, to be changed.
    pub fn data_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// The elements alone.
    pub fn into_data(self) -> Vec<T> {
        self.data
    }

    /// The sizes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Memory for elements of these sizes, which is empty until it is `filled`.
    pub(crate) fn reserve(&mut self, sizes: &[i64]) -> *mut T {
        self.shape.clear();
        self.shape.extend(sizes.iter().map(|&size| size as usize));
        self.data.clear();
        self.data.reserve(self.shape.iter().product());
        self.data.as_mut_ptr()
    }

    /// Tells that all elements were written.
    pub(crate) unsafe fn filled(&mut self) {
        self.data.set_len(self.shape.iter().product());
    }
}

/// Elements of somebody else. Without a shape, it follows from their number where that is possible.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    data: &'a [T],
    shape: Option<&'a [usize]>,
}

impl<'a, T: Element> View<'a, T> {
    /// Elements with a shape.
    pub fn new(data: &'a [T], shape: &'a [usize]) -> Self {
        View { data, shape: Some(shape) }
    }

    /// The elements.
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// The sizes, where they were stated.
    pub fn shape(&self) -> Option<&'a [usize]> {
        self.shape
    }
}

impl<'a, T: Element> From<&'a Tensor<T>> for View<'a, T> {
    fn from(tensor: &'a Tensor<T>) -> Self {
        View::new(&tensor.data, &tensor.shape)
    }
}

impl<'a, T: Element> From<&'a [T]> for View<'a, T> {
    fn from(data: &'a [T]) -> Self {
        View { data, shape: None }
    }
}

/// The upper half of an `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct BFloat16(pub u16);

impl From<f32> for BFloat16 {
    /// Rounds to the nearest, ties to even.
    fn from(number: f32) -> Self {
        let all = number.to_bits();
        if number.is_nan() {
            return BFloat16((all >> 16) as u16 | 64);
        }
        BFloat16(((all + 0x7fff + (all >> 16 & 1)) >> 16) as u16)
    }
}

impl From<BFloat16> for f32 {
    fn from(number: BFloat16) -> f32 {
        f32::from_bits((number.0 as u32) << 16)
    }
}

/// A half of IEEE 754.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Float16(pub u16);

impl From<f32> for Float16 {
    /// Rounds to the nearest, ties to even.
    fn from(number: f32) -> Self {
        let all = number.to_bits();
        let (sign, size) = (all >> 16 & 0x8000, all & 0x7fff_ffff);
        let half = match size {
            0x7f80_0001.. => 0x7e00,
            0x477f_f000.. => 0x7c00,
            0x3880_0000.. => (size - 0x3800_0000 + 0xfff + (size >> 13 & 1)) >> 13,
            // Subnormals: the unit is 2^-24, as is that of floats near 1/2.
            _ => (f32::from_bits(size) + 0.5).to_bits() - 0x3f00_0000,
        };
        Float16((sign | half) as u16)
    }
}

impl From<Float16> for f32 {
    fn from(number: Float16) -> f32 {
        let (sign, rest) = (((number.0 & 0x8000) as u32) << 16, (number.0 & 0x7fff) as u32);
        let all = match rest {
            0..=0x3ff => (rest as f32 / 16777216.0).to_bits(),
            0x7c00.. => (rest << 13) + 0x7000_0000,
            _ => (rest << 13) + 0x3800_0000,
        };
        f32::from_bits(sign | all)
    }
}
