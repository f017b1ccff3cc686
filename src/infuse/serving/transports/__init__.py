"""What callers speak to: HTTP, gRPC and the console; they translate and admit, and the engine
answers.
"""
