"""Builders of primitives; importing this registers them all."""

import infuse.frontends.mindspore.operators.images
import infuse.frontends.mindspore.operators.linear
import infuse.frontends.mindspore.operators.movement
import infuse.frontends.mindspore.operators.normalization
import infuse.frontends.mindspore.operators.pointwise
import infuse.frontends.mindspore.operators.recurrent
import infuse.frontends.mindspore.operators.reductions
import infuse.frontends.mindspore.operators.structure
import infuse.frontends.mindspore.operators.torchlike  # noqa: F401
