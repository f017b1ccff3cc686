// One graph, its constants, and what is told of the model as a whole.
"use strict";

const model = {
  title: source.title,
  sides: { graph: new Side("graph", source.graph) },
  constants: source.constants,
  about: source.model,
};
