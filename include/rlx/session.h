/* SPDX-License-Identifier: Apache-2.0 */
/* A session: one model and the programs compiled from it. Used by one thread at a time; the
 * programs that it hands out may go anywhere. */
#ifndef RLX_SESSION_H
#define RLX_SESSION_H

#include <rlx/compile.h>
#include <rlx/graph.h>
#include <rlx/program.h>

RLX_BEGIN_DECLS

typedef struct rlx_session rlx_session;

/* Opens a model file; the importer is chosen by what the file holds. `allocator` may be NULL.
 * Weights stay in the file until a program is made. RLX_IO, RLX_PARSE (with file and line),
 * RLX_UNSUPPORTED. */
RLX_CALL rlx_status rlx_session_open(const rlx_allocator *allocator, const char *path,
                                     rlx_session **out_session);
/* A session over a graph that was built with the API; `graph` is consumed. */
RLX_CALL rlx_status rlx_session_create(const rlx_allocator *allocator, rlx_graph *graph,
                                       rlx_session **out_session);
RLX_API void rlx_session_destroy(rlx_session *session); /* NULL is allowed */

/* Borrowed as long as the session lives. */
RLX_API const rlx_graph *rlx_session_graph(const rlx_session *session);

/* The plan for a device by name (NULL: "cpu"), without opening it and without reading a weight. The
 * plan is owned by the caller; it points to parameters that the model holds in memory, so programs
 * are made of it while the session lives. `threads` 0: as many as the process may use; `options`
 * may be NULL. RLX_UNSUPPORTED lists every node that the device cannot run. */
RLX_CALL rlx_status rlx_session_plan(rlx_session *session, const char *device_name,
                                     uint32_t threads, const rlx_compile_options *options,
                                     rlx_plan **out_plan);

/* Compiles for an open device and reads the weights, or finds the program that was made before with
 * the same device and options. Retained for the caller: rlx_program_release. Both options may be
 * NULL. */
RLX_CALL rlx_status rlx_session_compile(rlx_session *session, rlx_device *device,
                                        const rlx_compile_options *options,
                                        const rlx_program_options *program_options,
                                        rlx_program **out_program);

RLX_END_DECLS

#endif
