/* SPDX-License-Identifier: Apache-2.0
 *
 * libweir in a C++ program: many threads, one key, exactly the limit.
 *
 *     c++ -std=c++11 embed.cpp $(pkg-config --cflags --libs weir) -pthread -o embed && ./embed */
#include <atomic>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <weir/weir.h>

struct Destroy {
    void operator()(weir_limiter *limiter) const { weir_limiter_destroy(limiter); }
};
using Limiter = std::unique_ptr<weir_limiter, Destroy>;

static void check(int error, const weir_fault &fault = weir_fault())
{
    if (error)
        throw std::runtime_error(std::string(weir_error_text(error)) + " " + fault.field + " " + fault.text);
}

static Limiter create()
{
    weir_limiter *limiter = nullptr;
    weir_fault fault = weir_fault();
    check(weir_limiter_create(nullptr, &limiter, &fault), fault);
    return Limiter(limiter);
}

static weir_limit_id define(weir_limiter *limiter, uint64_t count)
{
    weir_limit_def def = weir_limit_def();
    def.name = "per-hour";
    def.spec.algorithm = WEIR_FIXED_WINDOW;
    def.spec.align = WEIR_ALIGN_FIRST;
    def.spec.count = count;
    def.spec.period_ns = 3600 * WEIR_NS_PER_SECOND;
    weir_limit_id id = 0;
    weir_fault fault = weir_fault();
    check(weir_limiter_define(limiter, &def, 1, nullptr, &id, &fault), fault);
    return id;
}

int main()
{
    const uint64_t count = 1000;
    Limiter limiter = create();
    weir_charge charge = weir_charge();
    charge.limit = define(limiter.get(), count);
    charge.cost = 1;
    const std::string user = "ada";
    const weir_slice value = { user.data(), user.size() };
    check(weir_limiter_key(limiter.get(), charge.limit, &value, 1, &charge.key));

    std::atomic<uint64_t> admitted(0);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&limiter, &charge, &admitted] {
            for (int j = 0; j < 1000; j++) {
                weir_decision decision;
                weir_verdict verdict;
                check(weir_limiter_decide(limiter.get(), &charge, 1, nullptr, 0, &decision, &verdict));
                admitted += decision.admitted;
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    std::cout << admitted << " of 4000 admitted, the limit is " << count << "\n";
    return admitted == count ? 0 : 1;
}
