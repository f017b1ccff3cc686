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
from infuse.processing.audio import (
    frames,
    istft,
    preemphasis,
    resample,
    spectrogram,
    stft,
    window,
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
from infuse.processing.mel import (
    amplitude_to_db,
    kaldi_fbank,
    mel_filters,
    mel_spectrogram,
    mfcc,
    nemo_log_mel,
    power_to_db,
    whisper_log_mel,
)
from infuse.processing.models import attach, call_model
from infuse.processing.resizing import letterbox, placement_of, prepare_image, resize
from infuse.processing.sequences import (
    ctc_beam_search,
    ctc_greedy,
    generate,
    next_token,
    viterbi,
)
from infuse.processing.suppression import batched_nms, detections, nms
from infuse.processing.text import detokenize, tokenize

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
__all__ += ["amplitude_to_db", "frames", "istft", "kaldi_fbank", "mel_filters"]
__all__ += ["mel_spectrogram", "mfcc", "nemo_log_mel", "power_to_db", "preemphasis"]
__all__ += ["resample", "spectrogram", "stft", "whisper_log_mel", "window"]
__all__ += ["ctc_beam_search", "ctc_greedy", "generate", "next_token", "viterbi"]
__all__ += ["detokenize", "tokenize"]
