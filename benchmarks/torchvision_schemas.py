"""Makes torchvision importable beside any build of torch.

torchvision's wheel is built for one build of torch. Beside another its compiled operators cannot be
loaded; its import then fails because it registers shape functions for them. Classification models
call none: declaring them is enough.
"""

from typing import Any

import torch

ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SIZE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
GRAD = "Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
GRAD_MAP = (
    "Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width"
)
GRAD_ARGMAX = (
    "Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, SymInt "
    "pooled_width"
)
DEFORM = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"
DEFORM_SIZES = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt "
    "dilation_w, "
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
    (
        f"_deform_conv2d_backward(Tensor grad, {DEFORM}, {DEFORM_SIZES}) -> "
        "(Tensor, Tensor, Tensor, "
        "Tensor, Tensor)"
    ),
]

_kept: list[Any] = []  # what a library declares lasts as long as the library


def make_importable() -> None:
    """Let `import torchvision` succeed, also inside other packages. Does nothing where torchvision
    is not installed.
    """
    try:
        import torchvision  # noqa: F401
    except ModuleNotFoundError:
        return
    except RuntimeError:  # operator torchvision::… does not exist
        library = torch.library.Library("torchvision", "DEF")
        for schema in SCHEMAS:
            library.define(schema)
        _kept.append(library)
