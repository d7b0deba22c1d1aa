# SPDX-License-Identifier: Apache-2.0
"""Envoy's rate limit service as a client asks it that knows nothing but what reflection tells."""
import python_packages  # first: it finds grpc
import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVICE = 'envoy.service.ratelimit.v3.RateLimitService'
UNKNOWN, OK, OVER_LIMIT = 0, 1, 2
UNITS = {'SECOND': 1, 'MINUTE': 2, 'HOUR': 3, 'DAY': 4, 'MONTH': 5, 'YEAR': 6, 'WEEK': 7}


class Envoy:
    """A context manager. `channel` is open to weir."""

    def __init__(self, port, token=None, credentials=None):
        self.channel = grpc.insecure_channel(f'127.0.0.1:{port}', [('grpc.use_local_subchannel_pool', 1)])
        self.metadata = [('authorization', f'Bearer {token}')] if token else None
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(self.channel))
        method = pool.FindServiceByName(SERVICE).methods_by_name['ShouldRateLimit']
        self.question = message_factory.GetMessageClass(method.input_type)
        self.answer = message_factory.GetMessageClass(method.output_type)
        self.call = self.channel.unary_unary(f'/{SERVICE}/ShouldRateLimit', self.question.SerializeToString, self.answer.FromString)
        self.bytes = self.channel.unary_unary(f'/{SERVICE}/ShouldRateLimit')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def make(self, *descriptors, domain='edge', hits=0):
        """A descriptor is a mapping, or (mapping, options): hits, negative, limit=(requests, unit)."""
        question = self.question(domain=domain, hits_addend=hits)
        for one in descriptors:
            entries, options = one if isinstance(one, tuple) else (one, {})
            descriptor = question.descriptors.add()
            for key, value in entries.items():
                descriptor.entries.add(key=key, value=value)
            if 'hits' in options:
                descriptor.hits_addend.value = options['hits']
                descriptor.hits_addend.SetInParent()
            descriptor.is_negative_hits = options.get('negative', False)
            if 'limit' in options:
                descriptor.limit.requests_per_unit, descriptor.limit.unit = options['limit']
                descriptor.limit.SetInParent()
        return question

    def ask(self, *descriptors, timeout=60, **options):
        return self.call(self.make(*descriptors, **options), timeout=timeout, metadata=self.metadata)

    def codes(self, *descriptors, **options):
        """The codes of all descriptors; that of the whole is as it must be."""
        answer = self.ask(*descriptors, **options)
        codes = [one.code for one in answer.statuses]
        assert answer.overall_code == max(codes), answer
        return codes
