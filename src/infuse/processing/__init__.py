"""Building blocks of what comes before and after a network: images, boxes, sound, sequences, text.

Each is a function of arrays, for programs that `infuse.trace` records, so that it becomes a part of
the model. Called outside of a trace, with NumPy's arrays, it computes the same at once.
"""

from infuse.processing.anchors import (
    decode_deltas,
    decode_dfl,
    decode_distances,
    decode_yolo_anchors,
    decode_yolo_distances,
    grid_anchors,
    grid_points,
    prior_boxes,
)
from infuse.processing.boxes import (
    box_area,
    box_iou,
    clip_boxes,
    complete_box_iou,
    convert_boxes,
    distance_box_iou,
    generalized_box_iou,
    scale_boxes,
)
from infuse.processing.colour import (
    bgr_to_rgb,
    hsv_to_rgb,
    i420_to_rgb,
    lab_to_rgb,
    nv12_to_rgb,
    rgb_to_bgr,
    rgb_to_gray,
    rgb_to_hsv,
    rgb_to_lab,
    rgb_to_ycbcr,
    rgb_to_yuv,
    ycbcr_to_rgb,
    yuv_to_rgb,
)
from infuse.processing.images import (
    center_crop,
    crop,
    decode_image,
    flip,
    normalize,
    pad,
    pad_to_multiple,
    to_pixels,
    to_planes,
)
from infuse.processing.models import attach, call_model
from infuse.processing.resizing import letterbox, placement_of, prepare_image, resize
from infuse.processing.suppression import batched_nms, detections, nms

__all__ = ["attach", "call_model"]
__all__ += ["crop", "center_crop", "decode_image", "flip", "letterbox", "normalize", "pad"]
__all__ += ["pad_to_multiple", "placement_of", "prepare_image", "resize", "to_pixels", "to_planes"]
__all__ += ["bgr_to_rgb", "hsv_to_rgb", "i420_to_rgb", "lab_to_rgb", "nv12_to_rgb", "rgb_to_bgr"]
__all__ += ["rgb_to_gray", "rgb_to_hsv", "rgb_to_lab", "rgb_to_ycbcr", "rgb_to_yuv"]
__all__ += ["ycbcr_to_rgb", "yuv_to_rgb"]
__all__ += ["box_area", "box_iou", "clip_boxes", "complete_box_iou", "convert_boxes"]
__all__ += ["distance_box_iou", "generalized_box_iou", "scale_boxes"]
__all__ += ["batched_nms", "detections", "nms"]
__all__ += ["decode_deltas", "decode_dfl", "decode_distances", "decode_yolo_anchors"]
__all__ += ["decode_yolo_distances", "grid_anchors", "grid_points", "prior_boxes"]
