/* SPDX-License-Identifier: Apache-2.0
 *
 * The job has all that its thread needs: the question with its text, and a configuration of its own, for a reload may
 * take the one in force away meanwhile. Called by http_rules.c. */
#include "serve/rules_job.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/assert.h"
#include "base/fault_format.h"
#include "serve/loop.h"

struct weir_rules_job {
    uv_work_t work;
    struct weir_loop *loop;
    struct weir_config *config; /* the file's, without rules */
    void (*then)(struct weir_rules_job *job, void *context);
    void *context;
    atomic_bool abandoned; /* the thread looks, so that it ends soon */
    struct weir_rules_question question;
    struct weir_rules_answer answer;
    char text[];
};

void weir_rules_job_end(struct weir_rules_job *job)
{
    weir_config_destroy(job->config);
    free(job->answer.body);
    free(job);
}

static void on_work(uv_work_t *work)
{
    struct weir_rules_job *job = work->data;
    weir_rules_answer(job->config, &job->question, &job->abandoned, &job->answer);
}

static void on_worked(uv_work_t *work, int status)
{
    struct weir_rules_job *job = work->data;
    weir_assert(status == 0); /* none is cancelled */
    atomic_fetch_sub(&job->loop->common->rules_jobs, 1);
    if (atomic_load(&job->abandoned))
        weir_rules_job_end(job);
    else
        job->then(job, job->context);
}

static int create(const struct weir_config *in_force, const struct weir_rules_question *question,
                  struct weir_rules_job **ret_job, struct weir_fault *ret_fault)
{
    const struct weir_slice none = { "limits: []\n", 11 };
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    struct weir_rules_job *job = faults ? malloc(sizeof(*job) + question->text.size + 1) : NULL;
    int error = job ? 0 : weir_fault_format(ret_fault, WEIR_ENOMEM, "", "out of memory");
    if (job) {
        *job = (struct weir_rules_job){ .question = *question };
        if (question->text.size > 0)
            memcpy(job->text, question->text.data, question->text.size);
        job->question.text = (struct weir_slice){ job->text, question->text.size };
        if (weir_config_with_rules(in_force, none, &job->config, faults)) /* a secret's file is gone, say */
            error = weir_fault_format(ret_fault, WEIR_EINVAL, "", "the configuration cannot be read again: %.150s",
                                      faults->list[0].text);
    }
    free(faults);
    if (error)
        free(job);
    else
        *ret_job = job;
    return error;
}

int weir_rules_job_start(struct weir_loop *loop, const struct weir_rules_question *question,
                         void (*then)(struct weir_rules_job *job, void *context), void *context,
                         struct weir_rules_job **ret_job, struct weir_fault *ret_fault)
{
    const struct weir_config *in_force = loop->setup->config;
    struct weir_rules_job *job = NULL;
    if (in_force->rules.store.size == 0)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "",
                                 "the rules stand in the configuration file: to change "
                                 "them here, put them into a store (rules: { store })");
    if (atomic_fetch_add(&loop->common->rules_jobs, 1) >= WEIR_RULES_JOBS_MAX) {
        atomic_fetch_sub(&loop->common->rules_jobs, 1);
        return weir_fault_format(ret_fault, WEIR_ELIMIT, "", "too many questions to the store of rules at once");
    }
    int error = create(in_force, question, &job, ret_fault);
    if (!error) {
        job->loop = loop;
        job->then = then;
        job->context = context;
        job->work.data = job;
        if (uv_queue_work(&loop->uv, &job->work, on_work, on_worked)) {
            weir_rules_job_end(job);
            error = WEIR_ENOMEM;
        }
    }
    if (error)
        atomic_fetch_sub(&loop->common->rules_jobs, 1);
    else
        *ret_job = job;
    return error;
}

struct weir_rules_answer *weir_rules_job_answer(struct weir_rules_job *job)
{
    return &job->answer;
}

void weir_rules_job_abandon(struct weir_rules_job *job)
{
    atomic_store(&job->abandoned, true);
}
