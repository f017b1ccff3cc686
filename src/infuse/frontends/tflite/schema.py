"""The schema of TensorFlow Lite models (version 3, as of LiteRT 2): its tables, element types, and
operators by their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from infuse import dtypes
from infuse.dtypes import DType
from infuse.frontends.tflite.wire import schema

TABLES: Final = schema(
    """
Model version:u32 operator_codes:[OperatorCode] subgraphs:[SubGraph] description:str
  buffers:[Buffer] - - signature_defs:[SignatureDef] - external_buffers:[ExternalBuffer]
OperatorCode deprecated_builtin_code:i8 custom_code:str version:i32=1 builtin_code:i32
SubGraph tensors:[Tensor] inputs:[i32] outputs:[i32] operators:[Operator] name:str
Buffer data:[u8] offset:u64 size:u64
ExternalBuffer id:u32
SignatureDef inputs:[TensorMap] outputs:[TensorMap] signature_key:str - subgraph_index:u32
TensorMap name:str tensor_index:u32
Tensor shape:[i32] type:i8 buffer:u32 name:str quantization:QuantizationParameters
  is_variable:bool sparsity:SparsityParameters shape_signature:[i32] has_rank:bool -
  external_buffer:u32
QuantizationParameters - - scale:[f32] zero_point:[i64] details_type:u8 details:union
  quantized_dimension:i32
BlockwiseQuantization scales:i32 zero_points:i32 block_size:i32
SparsityParameters traversal_order:[i32] block_map:[i32] dim_metadata:[DimensionMetadata]
DimensionMetadata format:i8 dense_size:i32 segments_type:u8 segments:union indices_type:u8
  indices:union
Int32Vector values:[i32]
Uint16Vector values:[u16]
Uint8Vector values:[u8]
Operator opcode_index:u32 inputs:[i32] outputs:[i32] options_type:u8 options:union
  custom_options:[u8] - - - - -
  options2_type:u8 options2:union
Conv2DOptions padding:i8 stride_w:i32 stride_h:i32 activation:i8 dilation_w:i32=1 dilation_h:i32=1
  bias_type:i8
Conv3DOptions padding:i8 stride_d:i32 stride_w:i32 stride_h:i32 activation:i8 dilation_d:i32=1
  dilation_w:i32=1 dilation_h:i32=1
Pool2DOptions padding:i8 stride_w:i32 stride_h:i32 filter_width:i32 filter_height:i32
  activation:i8
DepthwiseConv2DOptions padding:i8 stride_w:i32 stride_h:i32 depth_multiplier:i32 activation:i8
  dilation_w:i32=1 dilation_h:i32=1
SVDFOptions rank:i32 activation:i8
RNNOptions activation:i8
SequenceRNNOptions time_major:bool activation:i8
BidirectionalSequenceRNNOptions time_major:bool activation:i8 merge_outputs:bool
FullyConnectedOptions activation:i8 weights_format:i8 keep_num_dims:bool
SoftmaxOptions beta:f32
ConcatenationOptions axis:i32 activation:i8
AddOptions activation:i8
SubOptions activation:i8
MulOptions activation:i8
DivOptions activation:i8
L2NormOptions activation:i8
LocalResponseNormalizationOptions radius:i32 bias:f32 alpha:f32 beta:f32
LSTMOptions activation:i8 cell_clip:f32 proj_clip:f32 kernel_type:i8
UnidirectionalSequenceLSTMOptions activation:i8 cell_clip:f32 proj_clip:f32 time_major:bool -
  diagonal_recurrent_tensors:bool
BidirectionalSequenceLSTMOptions activation:i8 cell_clip:f32 proj_clip:f32 merge_outputs:bool
  time_major:bool=1
ResizeBilinearOptions - - align_corners:bool half_pixel_centers:bool
ResizeNearestNeighborOptions align_corners:bool half_pixel_centers:bool
ReshapeOptions new_shape:[i32]
SpaceToDepthOptions block_size:i32
DepthToSpaceOptions block_size:i32
EmbeddingLookupSparseOptions combiner:i8
GatherOptions axis:i32 batch_dims:i32
ReducerOptions keep_dims:bool
SqueezeOptions squeeze_dims:[i32]
SplitOptions num_splits:i32
SplitVOptions num_splits:i32
StridedSliceOptions begin_mask:i32 end_mask:i32 ellipsis_mask:i32 new_axis_mask:i32
  shrink_axis_mask:i32 offset:bool
TransposeConvOptions padding:i8 stride_w:i32 stride_h:i32 activation:i8 bias_type:i8
FakeQuantOptions min:f32 max:f32 num_bits:i32 narrow_range:bool
PackOptions values_count:i32 axis:i32
OneHotOptions axis:i32
UnpackOptions num:i32 axis:i32
LeakyReluOptions alpha:f32
MirrorPadOptions mode:i8
ReverseSequenceOptions seq_dim:i32 batch_dim:i32
IfOptions then_subgraph_index:i32 else_subgraph_index:i32
CallOptions subgraph:u32
CallOnceOptions init_subgraph_index:i32
WhileOptions cond_subgraph_index:i32 body_subgraph_index:i32
BatchMatMulOptions adj_x:bool adj_y:bool
CumsumOptions exclusive:bool reverse:bool
HashtableOptions table_id:i32 key_dtype:i8 value_dtype:i8
VarHandleOptions container:str shared_name:str
RandomOptions seed:i64 seed2:i64
BucketizeOptions boundaries:[f32]
GeluOptions approximate:bool
ReduceWindowOptions reduce_function:i32
"""
)
"""The tables, as far as they are read; options by the names that the schema has for them."""

_OPTIONS: Final = """
- Conv2D DepthwiseConv2D ConcatEmbeddings LSHProjection Pool2D SVDF RNN FullyConnected Softmax
Concatenation Add L2Norm LocalResponseNormalization LSTM ResizeBilinear Call Reshape SkipGram
SpaceToDepth EmbeddingLookupSparse Mul Pad Gather BatchToSpaceND SpaceToBatchND Transpose Reducer
Sub Div Squeeze SequenceRNN StridedSlice Exp TopKV2 Split LogSoftmax Cast Dequantize
MaximumMinimum ArgMax Less Neg PadV2 Greater GreaterEqual LessEqual Select Slice TransposeConv
SparseToDense Tile ExpandDims Equal NotEqual Shape Pow ArgMin FakeQuant Pack LogicalOr OneHot
LogicalAnd LogicalNot Unpack FloorDiv Square ZerosLike Fill BidirectionalSequenceLSTM
BidirectionalSequenceRNN UnidirectionalSequenceLSTM FloorMod Range ResizeNearestNeighbor LeakyRelu
SquaredDifference MirrorPad Abs SplitV Unique ReverseV2 AddN GatherNd Cos Where Rank
ReverseSequence MatrixDiag Quantize MatrixSetDiag HardSwish If While DepthToSpace
NonMaxSuppressionV4 NonMaxSuppressionV5 ScatterNd SelectV2 Densify SegmentSum BatchMatMul Cumsum
CallOnce BroadcastTo Rfft2d Conv3D Hashtable HashtableFind HashtableImport HashtableSize VarHandle
ReadVariable AssignVariable Random Bucketize Gelu DynamicUpdateSlice UnsortedSegmentProd
UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentSum ATan2 Sign Bitcast BitwiseXor RightShift
"""
OPTIONS: Final = dict(enumerate(f"{name}Options" for name in _OPTIONS.split()))
"""The tables of an operator's options by the number that says which it is."""
OPTIONS2: Final = {18: "DilateOptions", 20: "ReduceWindowOptions"}
"""Those of the second list."""

_OPERATORS: Final = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6
RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL
CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST
PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN
TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW
ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK
REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR
LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS
WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG
REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL
BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD
UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM
STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM
STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS
STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG
STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER
STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER
STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE
STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT
STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR
REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
"""
OPERATORS: Final = tuple(_OPERATORS.split())
"""The builtin operators, by number."""

DTYPES: Final[Mapping[int, DType]] = {
    0: dtypes.float32,
    1: dtypes.float16,
    2: dtypes.int32,
    3: dtypes.uint8,
    4: dtypes.int64,
    5: dtypes.string,
    6: dtypes.bool_,
    7: dtypes.int16,
    8: dtypes.complex64,
    9: dtypes.int8,
    10: dtypes.float64,
    12: dtypes.uint64,
    15: dtypes.uint32,
    16: dtypes.uint16,
    17: dtypes.int4,
    18: dtypes.bfloat16,
    19: dtypes.int2,
    20: dtypes.uint4,
    21: dtypes.float8e4m3fn,
    22: dtypes.float8e5m2,
}
"""The element types that tensors may have here, by number."""
TYPE_NAMES: Final = {5: "STRING", 11: "COMPLEX128", 13: "RESOURCE", 14: "VARIANT"}
"""The others."""
