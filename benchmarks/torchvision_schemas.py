"""Declares torchvision's compiled operators by schema, so that torchvision imports beside any build of torch.

torchvision's wheel is built for one build of torch; beside another its operators cannot be loaded, and its import fails
because it registers shape functions for them. Classification models call none of them: the declarations are enough.
"""

import torch

ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SIZE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
GRAD = "Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
GRAD_MAP = (
    "Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
)
GRAD_ARGMAX = "Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
DEFORM = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"
DEFORM_SIZES = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)
SCHEMAS = [
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({ROI}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward({GRAD}, {SIZE}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({ROI}) -> (Tensor, Tensor)",
    f"_roi_pool_backward({GRAD_ARGMAX}, {SIZE}) -> Tensor",
    f"ps_roi_align({ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward({GRAD_MAP}, int sampling_ratio, {SIZE}) -> Tensor",
    f"ps_roi_pool({ROI}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward({GRAD_MAP}, {SIZE}) -> Tensor",
    f"deform_conv2d({DEFORM}, {DEFORM_SIZES}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {DEFORM}, {DEFORM_SIZES}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
]

LIBRARY = torch.library.Library("torchvision", "DEF")  # what it declares lasts as long as this object
for schema in SCHEMAS:
    LIBRARY.define(schema)
