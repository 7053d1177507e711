/* SPDX-License-Identifier: Apache-2.0 */
/* The whole API, in the order of the story: model, graph, plan, program, executable. */
#ifndef RLX_RLX_H
#define RLX_RLX_H

/* clang-format off */
#include <rlx/base.h>
#include <rlx/env.h>
#include <rlx/dtype.h>
#include <rlx/ops.h>
#include <rlx/value.h>
#include <rlx/graph.h>
#include <rlx/npy.h>
#include <rlx/onnx.h>
#include <rlx/place.h>
#include <rlx/plan.h>
#include <rlx/compile.h>
#include <rlx/device.h>
#include <rlx/arena.h>
#include <rlx/copy.h>
#include <rlx/transport.h>
#include <rlx/collective.h>
#include <rlx/program.h>
#include <rlx/exec.h>
#include <rlx/session.h>
/* clang-format on */

#endif
