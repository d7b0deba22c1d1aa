# SPDX-License-Identifier: Apache-2.0
"""What tests of gRPC calls by grpcio share."""
import unittest

import python_packages  # first: it finds grpc
import grpc


class GrpcCase(unittest.TestCase):
    def refused(self, code, function, *arguments, **options):
        """The call fails with this code; returns what it says."""
        with self.assertRaises(grpc.RpcError) as caught:
            function(*arguments, **options)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()
