# Elixir: a queue with the defaults of AMQP.Queue.declare/3 (pma/amqp), which is not durable, exclusive or deleted by itself.
#
#     ERL_LIBS=/usr/lib/rabbitmq/lib/rabbitmq_server-VERSION/plugins elixir queue_declare.exs PORT
#
# Only Hex has that library, so this calls RabbitMQ's Erlang client as the library does.

defmodule Client do
  require Record

  @client "amqp_client/include/amqp_client.hrl"
  @framing "rabbit_common/include/rabbit_framing.hrl"

  Record.defrecordp(:network, :amqp_params_network, Record.extract(:amqp_params_network, from_lib: @client))
  Record.defrecordp(:message, :amqp_msg, Record.extract(:amqp_msg, from_lib: @client))
  Record.defrecordp(:declare, :"queue.declare", Record.extract(:"queue.declare", from_lib: @framing))
  Record.defrecordp(:publish, :"basic.publish", Record.extract(:"basic.publish", from_lib: @framing))
  Record.defrecordp(:get, :"basic.get", Record.extract(:"basic.get", from_lib: @framing))

  def run(port) do
    {:ok, connection} = :amqp_connection.start(network(port: port))
    {:ok, channel} = :amqp_connection.open_channel(connection)
    {:"queue.declare_ok", queue, _, _} = :amqp_channel.call(channel, declare(queue: "elixir"))
    :ok = :amqp_channel.call(channel, publish(routing_key: queue), message(payload: "hello from elixir"))
    {_, message(payload: payload)} = :amqp_channel.call(channel, get(queue: queue, no_ack: true))
    IO.puts(payload)
    :amqp_connection.close(connection)
  end
end

Logger.configure(level: :error)
Client.run(String.to_integer(hd(System.argv())))
