"""Operators by their names in PIR, and what they were called in the programs before it.

A line is `NAME operands -> results`, and behind a `|` each older name with the parameters in the
same order, and `ATTRIBUTE<OLDER` where an attribute was called otherwise; indented lines go on with
the one before. Parameters that are not listed are the names with a capital; `A/B` is the first of
both that is there, `-` none. Lines of the same form share one (`NAME, NAME`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_LINES: Final = """
abs, acos, acosh, asin, asinh, assign, atan, atanh, ceil, celu, channel_shuffle, cos, cosh x ->
      out
cumprod, elu, erf, exp, expm1, floor, gelu, log, log10, log1p, log2, log_softmax x -> out
logical_not, logit, logsigmoid, logsumexp, maxout, mish, pixel_shuffle, pixel_unshuffle x -> out
reciprocal, relu, relu6, round, rsqrt, selu, sigmoid, sign, silu, sin, sinh, softmax x -> out
softplus, softsign, sqrt, square, stanh, swish, tan, tanh, tanh_shrink, bitwise_not x -> out
temporal_shift, thresholded_relu, flip, p_norm, exponential x -> out
hardshrink x -> out | hard_shrink X -> Out
softshrink x -> out | softshrink X -> Out threshold<lambda
hardsigmoid x -> out | hard_sigmoid X -> Out
hardswish x -> out | hard_swish X -> Out
hardtanh x -> out | brelu X -> Out
leaky_relu x -> out | leaky_relu X -> Out negative_slope<alpha
isfinite x -> out | isfinite_v2 X -> Out
isinf x -> out | isinf_v2 X -> Out
isnan x -> out | isnan_v2 X -> Out
trunc input -> out | trunc X -> Out
pow x -> out | pow X -> Out y<factor
add, fmax, fmin, maximum, minimum, bitwise_and, bitwise_or, bitwise_xor, equal_all, kron x y ->
      out
equal, not_equal, less_than, less_equal, greater_than, greater_equal, atan2, bmm, dot x y -> out
logical_and, logical_or, logical_xor x y -> out
add x y -> out | elementwise_add X Y -> Out | grad_add X Y -> Out
subtract x y -> out | elementwise_sub X Y -> Out
multiply x y -> out | elementwise_mul X Y -> Out
divide x y -> out | elementwise_div X Y -> Out
maximum x y -> out | elementwise_max X Y -> Out
minimum x y -> out | elementwise_min X Y -> Out
fmax x y -> out | elementwise_fmax X Y -> Out
fmin x y -> out | elementwise_fmin X Y -> Out
floor_divide x y -> out | elementwise_floordiv X Y -> Out
remainder x y -> out | elementwise_mod X Y -> Out
elementwise_pow x y -> out | elementwise_pow X Y -> Out
lerp x y weight -> out
scale x scale -> out | scale X ScaleTensor -> Out
cast x -> out | cast X -> Out dtype<out_dtype
clip x min max -> out | clip X Min Max -> Out
increment x -> out | increment X -> Out value<step
dropout x seed_tensor p -> out mask
    | dropout X Seed - -> Out Mask p<dropout_prob mode<dropout_implementation
label_smooth label prior_dist -> out | label_smooth X PriorDist -> Out
bce_loss input label -> out | bce_loss X Label -> Out
where condition x y -> out
prelu x alpha -> out
add_n inputs -> out | sum X -> Out
sum x axis -> out
    | reduce_sum X AxisTensorList/AxisTensor -> Out axis<dim keepdim<keep_dim dtype<out_dtype
mean x axis -> out
    | reduce_mean X AxisTensorList/AxisTensor -> Out axis<dim keepdim<keep_dim dtype<out_dtype
    | mean X - -> Out
max x axis -> out
    | reduce_max X AxisTensorList/AxisTensor -> Out axis<dim keepdim<keep_dim dtype<out_dtype
min x axis -> out
    | reduce_min X AxisTensorList/AxisTensor -> Out axis<dim keepdim<keep_dim dtype<out_dtype
prod x axis -> out
    | reduce_prod X AxisTensorList/AxisTensor -> Out axis<dim keepdim<keep_dim dtype<out_dtype
any x -> out | reduce_any X -> Out axis<dim keepdim<keep_dim dtype<out_dtype
all x -> out | reduce_all X -> Out axis<dim keepdim<keep_dim dtype<out_dtype
frobenius_norm x axis -> out | frobenius_norm X - -> Out axis<dim keepdim<keep_dim dtype<out_dtype
squared_l2_norm x -> out
norm x -> out norm | norm X -> Out Norm
argmax x axis -> out | arg_max X - -> Out
argmin x axis -> out | arg_min X - -> Out
topk x k -> out indices | top_k_v2 X K -> Out Indices | top_k X K -> Out Indices
argsort x -> out indices
cumsum x axis -> out | cumsum X AxisTensor -> Out
unique x -> out indices inverse counts | unique X -> Out Indices Index Counts
matmul x y -> out | matmul_v2 X Y -> Out transpose_x<trans_x transpose_y<trans_y
matmul x y -> out | matmul X Y -> Out transpose_x<transpose_X transpose_y<transpose_Y
matmul_with_flatten x y -> out | mul X Y -> Out
fc input w bias -> out | fc Input W Bias -> Out
mv x vec -> out | mv X Vec -> Out
addmm input x y -> out | addmm Input X Y -> Out alpha<Alpha beta<Beta
einsum x -> out inner_cache xshape | einsum Operands -> Out InnerCache XShape
bilinear x y weight bias -> out | bilinear_tensor_product X Y Weight Bias -> Out
conv2d, conv3d, depthwise_conv2d input filter bias -> out | conv2d Input Filter Bias -> Output
    | conv3d Input Filter Bias -> Output | depthwise_conv2d Input Filter Bias -> Output
conv2d_transpose, conv3d_transpose, depthwise_conv2d_transpose x filter output_size -> out
    | conv2d_transpose Input Filter OutputSizeTensor -> Output
    | conv3d_transpose Input Filter OutputSizeTensor -> Output
    | depthwise_conv2d_transpose Input Filter OutputSizeTensor -> Output
deformable_conv x offset filter mask -> out | deformable_conv Input Offset Filter Mask -> Output
batch_norm x mean variance scale bias -> out mean_out variance_out saved_mean saved_variance
      reserve_space
    | batch_norm X Mean Variance Scale Bias -> Y MeanOut VarianceOut SavedMean SavedVariance
      ReserveSpace data_format<data_layout
    | sync_batch_norm X Mean Variance Scale Bias -> Y MeanOut VarianceOut SavedMean SavedVariance
      ReserveSpace data_format<data_layout
sync_batch_norm x mean variance scale bias -> out
layer_norm x scale bias -> out mean variance | layer_norm X Scale Bias -> Y Mean Variance
group_norm x scale bias -> y mean variance
    | group_norm X Scale Bias -> Y Mean Variance data_format<data_layout
instance_norm x scale bias -> y saved_mean saved_variance
    | instance_norm X Scale Bias -> Y SavedMean SavedVariance
pool2d x kernel_size -> out | pool2d X - -> Out kernel_size<ksize
pool3d x -> out | pool3d X -> Out kernel_size<ksize
max_pool2d_with_index x -> out mask | max_pool2d_with_index X -> Out Mask kernel_size<ksize
bicubic_interp, bilinear_interp, linear_interp, nearest_interp, trilinear_interp x out_size
      size_tensor scale_tensor -> output
    | bicubic_interp_v2 X OutSize SizeTensor Scale -> Out data_format<data_layout
    | bilinear_interp_v2 X OutSize SizeTensor Scale -> Out data_format<data_layout
    | linear_interp_v2 X OutSize SizeTensor Scale -> Out data_format<data_layout
    | nearest_interp_v2 X OutSize SizeTensor Scale -> Out data_format<data_layout
    | trilinear_interp_v2 X OutSize SizeTensor Scale -> Out data_format<data_layout
bilinear_interp x out_size size_tensor scale_tensor -> output
    | bilinear_interp X OutSize SizeTensor Scale -> Out data_format<data_layout
nearest_interp x out_size size_tensor scale_tensor -> output
    | nearest_interp X OutSize SizeTensor Scale -> Out data_format<data_layout
grid_sample x grid -> out | grid_sampler X Grid -> Output
affine_grid input output_shape -> output | affine_grid Theta OutputShape -> Output
roi_align x boxes boxes_num -> out | roi_align X ROIs RoisNum -> Out
unfold x -> out | unfold X -> Y
reshape x shape -> out xshape | reshape2 X ShapeTensor/Shape -> Out XShape
    | reshape X ShapeTensor/Shape -> Out -
transpose x -> out xshape | transpose2 X -> Out XShape perm<axis | transpose X -> Out - perm<axis
flatten x -> out xshape | flatten_contiguous_range X -> Out XShape
flatten2 x -> out xshape | flatten2 X -> Out XShape | flatten X -> Out -
squeeze x axis -> out xshape | squeeze2 X AxisTensor -> Out XShape axis<axes
    | squeeze X AxisTensor -> Out - axis<axes
unsqueeze x axis -> out xshape | unsqueeze2 X AxesTensorList/AxesTensor -> Out XShape axis<axes
    | unsqueeze X AxesTensorList/AxesTensor -> Out - axis<axes
slice input starts ends -> out
    | slice Input StartsTensorList/StartsTensor EndsTensorList/EndsTensor -> Out
strided_slice x starts ends strides -> out
    | strided_slice Input StartsTensorList/StartsTensor EndsTensorList/EndsTensor
      StridesTensorList/StridesTensor -> Out
concat x axis -> out | concat X AxisTensor -> Out
split x sections axis -> out | split X SectionsTensorList AxisTensor -> Out
split_with_num x axis -> out
stack x -> out | stack X -> Y
unstack x -> out | unstack X -> Y
unbind input -> out | unbind X -> Out
gather x index axis -> out | gather X Index Axis -> Out
gather_nd x index -> out
index_sample x index -> out
index_select x index -> out | index_select X Index -> Out axis<dim
take_along_axis arr indices -> out | take_along_axis Input Index -> Result axis<Axis
put_along_axis arr indices values -> out
    | put_along_axis Input Index Value -> Result axis<Axis reduce<Reduce include_self<Include_self
scatter x index updates -> out | scatter X Ids Updates -> Out
scatter_nd_add x index updates -> out
embedding x weight -> out | lookup_table_v2 Ids W -> Out | lookup_table Ids W -> Out
one_hot x num_classes -> out | one_hot_v2 X depth_tensor -> Out num_classes<depth
expand x shape -> out | expand_v2 X expand_shapes_tensor/Shape -> Out
expand_as x y -> out | expand_as_v2 X Y -> Out
tile x repeat_times -> out | tile X repeat_times_tensor/RepeatTimes -> Out
roll x shifts -> out | roll X ShiftsTensor -> Out
tril, triu x -> out
tril_triu x -> out
pad x pad_value -> out | pad X - -> Out
pad2d x -> out
pad3d x paddings -> out | pad3d X Paddings -> Out pad_value<value
set_value_with_tensor x values starts ends steps -> out
    | set_value Input ValueTensor StartsTensorList EndsTensorList StepsTensorList -> Out
set_value x starts ends steps -> out
repeat_interleave x -> out | repeat_interleave X -> Out repeats<Repeats axis<dim
meshgrid inputs -> out | meshgrid X -> Out
diagonal x -> out | diagonal Input -> Out
nonzero condition -> out | where_index Condition -> Out
masked_select x mask -> out | masked_select X Mask -> Y
shape, shape64 input -> out | shape Input -> Out
numel x -> size | size Input -> Out
arange start end step -> out | range Start End Step -> Out
linspace start stop number -> out | linspace Start Stop Num -> Out
full shape value -> out | fill_constant ShapeTensorList/ShapeTensor ValueTensor -> Out
full_int_array -> out
full_with_tensor value shape -> out
full_like x value -> out | fill_any_like X - -> Out
full_batch_size_like input -> out | fill_constant_batch_size_like Input -> Out
zeros_like, ones_like x -> out
eye num_rows num_columns -> out | eye - - -> Out
assign_value output -> out | assign_value - -> Out
sequence_mask x max_len -> y | sequence_mask X MaxLenTensor -> Y max_len<maxlen
share_data x -> out
coalesce_tensor input -> output fused_output
rnn x pre_state weight_list sequence_length dropout_state_in -> out dropout_state_out state
      reserve
    | rnn Input PreState WeightList SequenceLength - -> Out DropoutState State Reserve
quantize_linear x scale zero_point in_accum in_state -> y out_state out_accum out_scale
    | quantize_linear X Scale ZeroPoint InAccum InState -> Y OutState OutAccum OutScale
dequantize_linear x scale zero_point in_accum in_state -> y out_state out_accum out_scale
    | dequantize_linear X Scale ZeroPoint InAccum InState -> Y OutState OutAccum OutScale
yolo_box x img_size -> boxes scores | yolo_box X ImgSize -> Boxes Scores
prior_box input image -> out var | prior_box Input Image -> Boxes Variances
box_coder prior_box prior_box_var target_box -> output_box
    | box_coder PriorBox PriorBoxVar TargetBox -> OutputBox
cross_entropy_with_softmax input label -> softmax loss
    | softmax_with_cross_entropy Logits Label -> Softmax Loss
multiclass_nms3 bboxes scores rois_num -> out index nms_rois_num
    | multiclass_nms3 BBoxes Scores RoisNum -> Out Index NmsRoisNum
"""


@dataclass(frozen=True)
class OperatorNames:
    """An operator's name and operands in PIR; where they stand in an older program, the parameters
    of that, and the names of attributes by their older ones.
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    older_operands: tuple[str, ...] = ()
    older_results: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)


def _parts(text: str) -> tuple[list[str], list[str]]:
    operands, _, results = text.partition("->")
    return operands.split(), results.split()


def _older(signature: OperatorNames, text: str) -> tuple[str, OperatorNames]:
    left, right = _parts(text)
    name, *operands = left
    results = [word for word in right if "<" not in word]
    pairs = [word.partition("<") for word in right if "<" in word]
    renamed = {older: new for new, _, older in pairs}
    assert (len(operands), len(results)) == (len(signature.operands), len(signature.results)), text
    return name, OperatorNames(
        signature.name, signature.operands, signature.results, (*operands,), (*results,), renamed
    )


def _tables() -> tuple[dict[str, OperatorNames], dict[str, OperatorNames]]:
    """The signatures by the names of PIR, and by the older ones."""
    new: dict[str, OperatorNames] = {}
    old: dict[str, OperatorNames] = {}
    for line in _LINES.strip().replace("\n    ", " ").splitlines():
        form, *olders = line.split("|")
        left, results = _parts(form)
        ends = next((i for i, word in enumerate(left) if not word.endswith(",")), 0)
        names = [word.rstrip(",") for word in left[: ends + 1]]
        signatures = [OperatorNames(n, (*left[ends + 1 :],), (*results,)) for n in names]
        for signature in signatures:
            new.setdefault(signature.name, signature)
        for text in olders:
            name = text.split()[0]
            base = name.removesuffix("_v2").removesuffix("2") if len(names) > 1 else names[0]
            chosen = next((s for s in signatures if s.name in (name, base)), signatures[0])
            older, signature = _older(chosen, text)
            assert older not in old, older
            old[older] = signature
        if not olders:
            for signature in signatures:
                operands = [word.title().replace("_", "") for word in signature.operands]
                results_ = [word.title().replace("_", "") for word in signature.results]
                text = f"{signature.name} {' '.join(operands)} -> {' '.join(results_)}"
                old.setdefault(*_older(signature, text))
    return new, old


NEW, OLD = _tables()
