// Old model files ("V1": layers { type: CONVOLUTION blobs_lr: 1 weight_decay: 1 ... }) rewritten in
// the new form (layer { type: "Convolution" param { lr_mult: 1 decay_mult: 1 } ... }).
#pragma once

#include "src/prototxt/node.h"

namespace kinet {

// Rewrites every `layers` child of a net's root in place, keeping file order when both forms are
// mixed, and adds a note for each old form met. Also: solver_type: ADAM -> type: "Adam".
void upgrade_v1_net(ParamNode& net, Diagnostics& diagnostics);
void upgrade_v1_solver(ParamNode& solver, Diagnostics& diagnostics);

}  // namespace kinet
