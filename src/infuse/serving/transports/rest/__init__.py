"""The Open Inference Protocol over HTTP: codec, ASGI application, server and its OpenAPI
document.
"""
