# RabbitMQ's Erlang client of 3.10: a consumer that asks for deliveries by basic.credit.
#
#     ERL_LIBS=/usr/lib/rabbitmq/lib/rabbitmq_server-VERSION/plugins elixir basic_credit.exs PORT

defmodule Client do
  require Record

  @client "amqp_client/include/amqp_client.hrl"
  @framing "rabbit_common/include/rabbit_framing.hrl"

  Record.defrecordp(:network, :amqp_params_network, Record.extract(:amqp_params_network, from_lib: @client))
  Record.defrecordp(:declare, :"queue.declare", Record.extract(:"queue.declare", from_lib: @framing))
  Record.defrecordp(:consume, :"basic.consume", Record.extract(:"basic.consume", from_lib: @framing))
  Record.defrecordp(:credit, :"basic.credit", Record.extract(:"basic.credit", from_lib: @framing))

  def run(port) do
    {:ok, connection} = :amqp_connection.start(network(port: port))
    {:ok, channel} = :amqp_connection.open_channel(connection)
    {:"queue.declare_ok", queue, _, _} = :amqp_channel.call(channel, declare(exclusive: true))
    arguments = [{"x-credit", :table, [{"credit", :long, 0}, {"drain", :bool, false}]}]
    {:"basic.consume_ok", tag} = :amqp_channel.subscribe(channel, consume(queue: queue, arguments: arguments), self())
    {:"basic.credit_ok", _} = :amqp_channel.call(channel, credit(consumer_tag: tag, credit: 10))
    :amqp_connection.close(connection)
  end
end

Logger.configure(level: :error)
Client.run(String.to_integer(hd(System.argv())))
